"""Neighbours and matches as PML finds them."""

import numpy as np
import pytest
import pytorch_metric_learning.distances as their_distances
import pytorch_metric_learning.utils.inference as theirs
import torch
from torch.utils.data import TensorDataset

from lookalike.errors import BadInput
from lookalike.pml.utils import inference as ours


@pytest.fixture
def rows():
    return torch.randn(20, 4, generator=torch.Generator().manual_seed(0))


def test_neighbours(rows):
    for arguments in ((rows, 3, rows, True), (rows[:5], 3, rows, True), (rows[:5], 4, rows[5:])):
        for mine, other in (
            (ours.FaissKNN(), theirs.FaissKNN()),
            (
                ours.CustomKNN("cosine", batch_size=3),
                theirs.CustomKNN(their_distances.CosineSimilarity(), batch_size=3),
            ),
            (ours.CustomKNN("l2"), theirs.CustomKNN(their_distances.LpDistance())),
        ):
            found, expected = mine(*arguments), other(*arguments)
            assert torch.equal(found[1], expected[1])
            torch.testing.assert_close(found[0], expected[0], rtol=1e-4, atol=1e-5)


def test_an_index_that_stays(rows, tmp_path):
    index = ours.FaissKNN(reset_before=False, reset_after=False)
    with pytest.raises(BadInput, match="train it"):
        index(rows, 1)
    index.train(rows[:10])
    index.add(rows[10:])
    index.save(tmp_path / "index")
    other = ours.FaissKNN(reset_before=False, reset_after=False)
    other.load(tmp_path / "index")
    assert torch.equal(other(rows, 1)[1].flatten(), torch.arange(20))
    with pytest.raises(BadInput, match="gpus"):
        ours.FaissKNN(gpus=[0])


def test_clusters():
    rows = torch.cat([torch.randn(50, 3), torch.randn(50, 3) + 20])
    found = ours.FaissKMeans(niter=5)(rows, 2)
    assert found[:50].unique().numel() == found[50:].unique().numel() == 1
    assert found[0] != found[50]


def test_matches(rows):
    mine = ours.MatchFinder("cosine", threshold=0.5)
    other = theirs.MatchFinder(their_distances.CosineSimilarity(), threshold=0.5)
    assert np.array_equal(mine.get_matching_pairs(rows), other.get_matching_pairs(rows))
    pairs = mine.get_matching_pairs(rows, rows[:5], 0.2, return_tuples=True)
    assert pairs == other.get_matching_pairs(rows, rows[:5], 0.2, return_tuples=True)
    unit = torch.nn.functional.normalize(rows)
    assert np.array_equal(mine.is_match(unit, unit.flip(0)), other.is_match(unit, unit.flip(0)))
    assert mine.is_match(unit[:1], unit[:1]) is True
    with pytest.raises(BadInput, match="threshold"):
        ours.MatchFinder("l2").is_match(rows, rows)


def test_a_model_with_an_index(rows, tmp_path):
    trunk, embedder = torch.nn.Linear(4, 6), torch.nn.Linear(6, 3)
    built = [
        library.InferenceModel(trunk, embedder, **given)
        for library, given in ((ours, {}), (theirs, {"data_device": torch.device("cpu")}))
    ]
    for inputs in (rows, list(rows), TensorDataset(rows, torch.arange(20))):
        for model in built:
            model.train_knn(inputs, batch_size=7)
            model.add_to_knn(inputs, batch_size=7)
        found, expected = (model.get_nearest_neighbors(rows[:4], 2) for model in built)
        torch.testing.assert_close(found, expected)
    mine, other = built
    torch.testing.assert_close(mine.get_embeddings(rows), other.get_embeddings(rows))
    assert np.array_equal(mine.get_matches(rows), other.get_matches(rows))
    assert np.array_equal(mine.is_match(rows, rows.flip(0)), other.is_match(rows, rows.flip(0)))
    mine.save_knn_func(tmp_path / "index")
    mine.load_knn_func(tmp_path / "index")
    with pytest.raises(BadInput, match="data set"):
        mine.train_knn(3)
