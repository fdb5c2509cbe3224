import numpy as np
import pytest
import torch
from sklearn.neighbors import NearestNeighbors

from lookalike.errors import BadInput
from lookalike.evaluation import nearest
from lookalike.evaluation.neighbours import exact_search


@pytest.mark.parametrize("distance", ["cosine", "l2"])
@pytest.mark.parametrize("index", [None, "flat"])
def test_equals_scikit_learn(clusters, distance, index):
    points, _ = clusters(230, 7, 5)
    queries, gallery = points[:40], points[40:]
    similar, places = nearest(queries, gallery, 9, distance=distance, index=index)
    metric = {"cosine": "cosine", "l2": "euclidean"}[distance]
    far, theirs = NearestNeighbors(n_neighbors=9, metric=metric).fit(gallery).kneighbors(queries)
    np.testing.assert_array_equal(places, theirs)
    expected = 1 - far if distance == "cosine" else -far
    np.testing.assert_allclose(similar, expected, atol=2e-6)


@pytest.mark.parametrize("distance", ["cosine", "l2"])
def test_blocks_agree_with_the_whole(clusters, distance, monkeypatch):
    points, _ = clusters(200, 7, 5)
    expected = nearest(points, points, 12, distance=distance)
    monkeypatch.setattr("lookalike.evaluation.neighbours.COLUMNS", 17)
    told = []
    found = nearest(
        points, points, 12, distance=distance, memory_mb=0, progress=lambda *d: told.append(d)
    )
    torch.testing.assert_close(found[0], expected[0], atol=1e-6, rtol=0)
    assert torch.equal(found[1], expected[1])
    assert told[-1] == (200, 200)


@pytest.mark.parametrize("kind", ["ivf", "hnsw"])
@pytest.mark.parametrize("distance", ["cosine", "l2"])
def test_approximate_indexes_find_nearly_all(clusters, kind, distance):
    points, _ = clusters(3000, 16, 50)
    exact = nearest(points[:100], points, 10, distance=distance)[1]
    found = nearest(points[:100], points, 10, distance=distance, index=kind)[1]
    hits = [len(set(a) & set(b)) for a, b in zip(exact.tolist(), found.tolist(), strict=True)]
    assert np.mean(hits) / 10 > 0.9


def test_more_than_there_are():
    similar, places = nearest(np.eye(3), np.eye(3), 10)
    assert similar.shape == places.shape == (3, 3)
    assert places[:, 0].tolist() == [0, 1, 2]


def test_own_distance_is_zero():
    points = 1000 + np.random.default_rng(0).normal(size=(50, 300)).astype(np.float32)
    similar, places = nearest(points, points, 1, distance="l2")
    assert places[:, 0].tolist() == list(range(50))
    assert similar.abs().max() < 2e-3


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((np.eye(3), np.eye(3), 0), "k must be at least 1"),
        ((np.eye(3), np.zeros((0, 3)), 1), "gallery is empty"),
        ((np.eye(3), np.eye(2), 1), "3 columns and the gallery 2"),
        ((np.full((1, 3), np.nan), np.eye(3), 1), "queries hold 1 row"),
        ((np.eye(3), np.eye(3), 1, "hsnw"), "no index 'hsnw'; did you mean 'hnsw'"),
    ],
)
def test_what_cannot_be_searched(arguments, sentence):
    *sets, index = arguments if len(arguments) == 4 else (*arguments, None)
    with pytest.raises(BadInput, match=sentence):
        nearest(*sets, index=index)


def test_items_in_a_file_are_searched_where_they_are(clusters, tmp_path, monkeypatch):
    points, _ = clusters(90, 7, 5)
    np.save(tmp_path / "points.npy", points)
    in_file = np.load(tmp_path / "points.npy", mmap_mode="c")
    monkeypatch.setattr("lookalike.evaluation.neighbours.COLUMNS", 40)
    similar, places = exact_search(torch.from_numpy(points[:10]), torch.from_numpy(in_file), 6)
    expected = points[:10].astype(np.float64) @ points.T
    np.testing.assert_array_equal(places, np.argsort(-expected)[:, :6])
    np.testing.assert_allclose(similar, -np.sort(-expected)[:, :6], rtol=1e-5)
