import numpy as np
import pytest
import torch

from lookalike.errors import BadInput
from lookalike.evaluation import evaluate, score


def assert_same(found, plain, names):
    for name in names:
        assert found[name] == pytest.approx(plain.score(name), abs=1e-12), name


def noisy(random):
    labels = random.integers(0, 9, 150)
    return random.normal(size=(9, 12))[labels] + random.normal(size=(150, 12)), labels


def repeated(random):
    """Each picture about six times, labels at random: ties are exact."""
    few = random.normal(size=(25, 37))
    return few[random.integers(0, 25, 160)], random.integers(0, 12, 160)


def whole_numbers(random):
    return random.integers(-1, 2, (140, 5)), random.integers(0, 30, 140)


def nearly_equal(random):
    """An almost collapsed network, which is ranked in double precision."""
    return 1 + 2e-7 * random.integers(-3, 4, (90, 24)), random.integers(0, 8, 90)


@pytest.mark.parametrize("ties", ["worst", "average", "best"])
@pytest.mark.parametrize(
    ("make", "distance"),
    [(noisy, "cosine"), (repeated, "cosine"), (repeated, "l2"), (whole_numbers, "l2"),
     (nearly_equal, "l2")],
)  # fmt: skip
def test_equals_sorting_every_query(plain_ranks, rank_metrics, make, distance, ties):
    points, labels = make(np.random.default_rng(1))
    points = points.astype(np.float32)
    found = evaluate(points, labels, rank_metrics, ties=ties, distance=distance)
    assert_same(found, plain_ranks(points, labels, ties=ties, distance=distance), rank_metrics)


def test_query_and_gallery(clusters, plain_ranks, rank_metrics):
    points, labels = clusters(160, 8, 11, seed=3)
    queries, gallery = slice(0, 60), slice(60, None)
    sets = (points[queries], labels[queries]), (points[gallery], labels[gallery])
    found = evaluate(*sets[0], rank_metrics, *sets[1])
    assert_same(found, plain_ranks(*sets[0], *sets[1]), rank_metrics)


def test_a_collapsed_network_scores_near_nothing():
    points = np.ones((60, 16), np.float32)
    labels = np.arange(60) // 3
    found = evaluate(points, labels, ("recall@1", "map@r", "recall@57", "recall@58"))
    assert found == {"recall@1": 0, "map@r": 0, "recall@57": 0, "recall@58": 1}
    assert evaluate(points, labels, ("map@r",), ties="best") == {"map@r": 1}


def test_rows_of_zeros_tie_with_everything(plain_ranks):
    points = np.eye(4, dtype=np.float32)[[0, 0, 1, 1, 2, 2]]
    points[4] = 0
    labels = [0, 0, 1, 1, 2, 2]
    names = ("recall@1", "map")
    assert_same(evaluate(points, labels, names), plain_ranks(points, labels), names)


@pytest.mark.parametrize(
    "rename",
    [
        pytest.param(lambda y: [f"bird {i}" for i in y], id="strings"),
        pytest.param(lambda y: np.array([f"{i}" for i in y], dtype=object), id="objects"),
        pytest.param(lambda y: y + 2**24, id="above 2^24"),
        pytest.param(lambda y: y + 2**62, id="above 2^53"),
        pytest.param(lambda y: y.astype(np.uint64) + np.uint64(2**63), id="unsigned"),
        pytest.param(lambda y: -y.astype(np.int8), id="negative, small"),
        pytest.param(torch.tensor, id="tensor"),
        pytest.param(lambda y: y.astype(float), id="floats"),
    ],
)
def test_labels_of_any_kind(clusters, rank_metrics, rename):
    points, labels = clusters(120, 6, 10)
    expected = evaluate(points, labels, rank_metrics)
    renamed = rename(labels)
    assert evaluate(points, renamed, rank_metrics) == expected
    first, second = slice(0, 50), slice(50, None)
    with_gallery = evaluate(
        points[first], renamed[first], rank_metrics, points[second], renamed[second]
    )
    assert with_gallery == evaluate(
        points[first], labels[first], rank_metrics, points[second], labels[second]
    )


@pytest.mark.parametrize(
    "convert",
    [
        pytest.param(lambda x: x.astype(np.float64), id="float64"),
        pytest.param(lambda x: torch.from_numpy(x).requires_grad_(), id="with gradient"),
        pytest.param(lambda x: np.asfortranarray(x), id="by columns"),
        pytest.param(lambda x: np.repeat(x, 2, axis=1)[:, ::2], id="strided"),
        pytest.param(lambda x: torch.from_numpy(x.T.copy()).T, id="transposed tensor"),
        pytest.param(lambda x: x.tolist(), id="list"),
    ],
)
def test_embeddings_of_any_kind(clusters, rank_metrics, convert):
    points, labels = clusters(90, 6, 8)
    assert evaluate(convert(points), labels, rank_metrics) == evaluate(points, labels, rank_metrics)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_ranked_as_it_is(clusters, plain_ranks, rank_metrics, dtype):
    points, labels = clusters(100, 16, 8)
    half = torch.from_numpy(points).to(dtype)
    found = evaluate(half, labels, rank_metrics)
    assert_same(found, plain_ranks(half.float().numpy(), labels), rank_metrics)


@pytest.mark.parametrize("scale", [1e-300, 1e-30, 1e30, 1e300])
def test_the_length_of_a_row_does_not_matter(clusters, rank_metrics, scale):
    points, labels = clusters(90, 6, 8)
    scales = np.where(np.arange(90) % 2, scale, 1.0)[:, None]
    expected = evaluate(points, labels, rank_metrics)
    found = evaluate(points.astype(np.float64) * scales, labels, rank_metrics)
    assert found == pytest.approx(expected)


@pytest.mark.parametrize("scale", [1e-15, 1e15, 1e25])
def test_very_long_and_very_short_distances(clusters, plain_ranks, scale):
    points, labels = clusters(70, 6, 8)
    names = ("recall@1", "map")
    found = evaluate(points * np.float32(scale), labels, names, distance="l2")
    assert_same(found, plain_ranks(points, labels, distance="l2"), names)


def test_one_image_classes_are_counted_and_left_out(clusters, plain_ranks, rank_metrics):
    points, labels = clusters(80, 6, 10)
    labels = np.where(np.arange(80) % 4 == 0, 1000 + np.arange(80), labels)
    found = score(points, labels, rank_metrics)
    plain = plain_ranks(points, labels)
    assert found.queries_without_relevant == sum(not r for r in plain.ranks) >= 20
    assert np.isnan(found.per_query["map"]).sum() == found.queries_without_relevant
    assert_same(found.scores, plain, rank_metrics)


def test_several_labels_an_item(clusters, plain_ranks, rank_metrics):
    points, _ = clusters(90, 6, 5)
    labels = np.random.default_rng(5).random((90, 7)) < 0.15  # some items have none at all
    assert not labels.any(1).all()
    found = score(points, labels, rank_metrics)
    assert_same(found.scores, plain_ranks(points, labels), rank_metrics)
    halves = slice(0, 40), slice(40, None)
    sets = [(points[half], labels[half].astype(int)) for half in halves]
    found = score(*sets[0], rank_metrics, *sets[1])
    assert_same(found.scores, plain_ranks(*sets[0], *sets[1]), rank_metrics)
    table = score(points, torch.from_numpy(labels), rank_metrics).per_class()
    assert [line.queries for line in table] == labels.sum(0).tolist()


def test_pairs_of_one_camera_are_ignored(clusters, plain_ranks, rank_metrics):
    points, labels = clusters(120, 6, 6)
    cameras = np.random.default_rng(6).integers(0, 3, 120)
    found = evaluate(points, labels, rank_metrics, ignore=cameras)
    assert_same(found, plain_ranks(points, labels, ignore=cameras), rank_metrics)
    names = np.array(["left", "middle", "right"])[cameras]
    assert evaluate(points, labels, rank_metrics, ignore=names) == found
    halves = slice(0, 50), slice(50, None)
    sets = [(points[half], labels[half]) for half in halves]
    own, other = (cameras[half] for half in halves)
    found = evaluate(*sets[0], rank_metrics, *sets[1], ignore=own, gallery_ignore=other)
    plain = plain_ranks(*sets[0], *sets[1], ignore=own, gallery_ignore=other)
    assert_same(found, plain, rank_metrics)


def test_a_table_of_pairs_is_ignored(clusters, plain_ranks, rank_metrics):
    points, labels = clusters(90, 6, 6)
    table = np.random.default_rng(7).random((90, 90)) < 0.2  # not symmetric
    found = evaluate(points, labels, rank_metrics, ignore=table)
    assert_same(found, plain_ranks(points, labels, ignore=table), rank_metrics)


def test_k_larger_than_the_gallery():
    found = evaluate(
        [[1.0, 0.0], [0.0, 1.0]],
        ["a", "b"],
        ("recall@1000", "precision@10", "map@10", "ndcg@10"),
        [[1.0, 0.0], [0.8, 0.1], [0.0, 1.0]],
        ["a", "a", "b"],
    )
    expected = {"recall@1000": 1, "precision@10": 0.15, "map@10": 1, "ndcg@10": 1}
    assert found == pytest.approx(expected)


def test_the_table_by_class(clusters):
    points, labels = clusters(90, 6, 7)
    names = np.array([f"class {i}" for i in labels])
    found = score(points, names, ("recall@1", "map"))
    table = found.per_class()
    assert [line.label for line in table] == sorted(set(names.tolist()))
    for line in table:
        members = names == line.label
        assert line.queries == members.sum()
        for metric, values in found.per_query.items():
            assert line.scores[metric] == pytest.approx(values[members].mean())


def test_the_worst_queries(clusters):
    points, labels = clusters(60, 6, 7)
    labels[10] = 99  # nothing relevant: not among the worst
    found = score(points, labels, ("recall@1", "map"))
    worst = found.worst("map", 5)
    values = found.per_query["map"]
    assert [w.value for w in worst] == sorted(values[~np.isnan(values)])[:5]
    assert all(values[w.index] == w.value and labels[w.index] == w.label for w in worst)
    assert found.worst(number=3) == worst[:3]
    assert len(found.worst("recall@1", 1000)) == 59
    with pytest.raises(BadInput, match="'mrr'"):
        found.worst("mrr")


def test_scores_do_not_depend_on_memory_or_threads(clusters, rank_metrics):
    points, labels = clusters(700, 24, 20, noise=2)
    expected = score(points, labels, rank_metrics)
    for threads, memory in ((1, 512), (3, 512), (2, 1)):
        torch.set_num_threads(threads)
        found = score(points, labels, rank_metrics, memory_mb=memory)
        for name in rank_metrics:
            np.testing.assert_array_equal(found.per_query[name], expected.per_query[name])


@pytest.mark.parametrize("memory", [512, 1])
def test_progress_counts_up_to_all(clusters, memory):
    points, labels = clusters(300, 8, 5)
    told = []
    evaluate(points, labels, memory_mb=memory, progress=lambda *done: told.append(done))
    assert told[-1] == (300, 300)
    assert told == sorted(told)


def test_training_precision_does_not_change_scores(clusters, rank_metrics):
    points, labels = clusters(200, 64, 10, noise=2)
    expected = evaluate(points, labels, rank_metrics)
    torch.set_float32_matmul_precision("medium")
    try:
        assert evaluate(points, labels, rank_metrics) == expected
        assert torch.get_float32_matmul_precision() == "medium"
    finally:
        torch.set_float32_matmul_precision("highest")


def test_intervals_hold_the_score(clusters):
    points, labels = clusters(200, 8, 10)
    found = score(points, labels, ("recall@1", "map", "rho"), confidence=0.95)
    assert set(found.intervals) == {"recall@1", "map"}
    for name, (low, high) in found.intervals.items():
        assert low < found.scores[name] < high
    assert not score(points, labels).intervals


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"metrics": ["recal@1"]}, r"no metric 'recal@1'; did you mean 'recall@1'\?"),
        ({"metrics": ["recall@0"]}, "the k of metric 'recall@0' must be a whole number"),
        ({"metrics": ["recall@x"]}, "the k of metric 'recall@x' must be a whole number"),
        ({"metrics": ["recall"]}, "no metric 'recall'; did you mean 'recall@k'"),
        ({"metrics": []}, "no metric"),
        ({"labels": [1, 2]}, "3 embeddings but 2 labels"),
        ({"embeddings": [], "labels": []}, "embeddings must be a table"),
        ({"embeddings": np.zeros((0, 4)), "labels": []}, "there are no embeddings"),
        ({"embeddings": [[1.0], [np.nan], [np.inf]]}, "2 row.* not finite.* row 1"),
        ({"embeddings": [["a"], ["b"], ["c"]]}, "table of numbers"),
        ({"embeddings": np.zeros((3, 0))}, "no columns"),
        ({"embeddings": [[1e300], [1], [2]], "distance": "l2"}, "single precision"),
        ({"labels": [1, 2, 3]}, "no query has a relevant item"),
        ({"labels": [[0, 2], [1, 0], [1, 1]]}, "multi-hot"),
        ({"labels": [1, np.nan, 1.0]}, "not finite"),
        ({"labels": [1, [2, 3], 1]}, "one label per item"),
        ({"gallery": np.zeros((0, 2)), "gallery_labels": []}, "no gallery embeddings"),
        ({"gallery": [[1.0, 2.0]]}, "gallery_labels go together"),
        ({"gallery_labels": [1]}, "gallery_labels go together"),
        ({"gallery": [[1.0, 2.0]], "gallery_labels": [1, 2]}, "1 gallery embeddings but 2 gallery"),
        ({"gallery": [[1.0]], "gallery_labels": [1]}, "2 columns and gallery embeddings 1"),
        ({"gallery": [[1.0, 2.0]], "gallery_labels": ["a"]}, "both be numbers"),
        ({"gallery": [[1.0, 2.0]], "gallery_labels": [7]}, "no label is in both"),
        ({"gallery": [[1.0, 2.0]], "gallery_labels": [[1, 0]]}, "both be multi-hot"),
        ({"labels": [[1], [1], [2]]}, "one label per embedding"),
        ({"distance": "cosinus"}, "no distance 'cosinus'; did you mean 'cosine'"),
        ({"ties": "worse"}, "no rule for ties 'worse'; did you mean 'worst'"),
        ({"ignore": [1, 2]}, "one identity per item"),
        ({"ignore": np.zeros((2, 3))}, "queries x gallery, 3 x 3, not 2 x 3"),
        ({"gallery_ignore": [1, 2]}, "needs ignore"),
        ({"labels": np.eye(3), "metrics": ["nmi"]}, "'nmi' needs one label per item"),
    ],
)
def test_what_cannot_be_scored_is_refused_in_a_sentence(arguments, sentence):
    good = {"embeddings": [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], "labels": [1, 1, 2]}
    with pytest.raises(BadInput, match=sentence):
        evaluate(**good | arguments)


def test_no_relevant_item_is_no_matter_for_the_structure():
    assert evaluate(np.eye(4), [1, 2, 3, 4], ["rho", "pi-inter"])["rho"] == pytest.approx(0)
