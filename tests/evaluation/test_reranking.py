import math

import numpy as np
import pytest
import torch

from lookalike.errors import BadInput
from lookalike.evaluation import AlphaExpansion, KReciprocal, evaluate
from lookalike.evaluation.reranking import _JaccardRows


def unit(points):
    points = np.asarray(points, np.float64)
    return (points / np.linalg.norm(points, axis=1, keepdims=True)).astype(np.float32)


def plain_k_reciprocal(queries, gallery, k1, k2, weight):
    """The method in sets and loops."""
    rows = np.concatenate([queries, gallery]).astype(np.float64)
    similar = rows @ rows.T
    number = len(rows)
    order = [sorted(range(number), key=lambda j: (j != i, -similar[i, j])) for i in range(number)]

    def reciprocal(i, k):
        return {j for j in order[i][: k + 1] if i in order[j][: k + 1]}

    vectors = []
    for i in range(number):
        members = reciprocal(i, k1)
        enlarged = set(members)
        for j in members:
            others = reciprocal(j, max(1, round(k1 / 2)))
            if len(members & others) >= 2 / 3 * len(others):
                enlarged |= others
        vector = np.zeros(number)
        for j in enlarged:
            vector[j] = math.exp(similar[i, j] - 1)
        vectors.append(vector / vector.sum())
    averaged = [np.mean([vectors[j] for j in order[i][:k2]], axis=0) for i in range(number)]
    distance = np.empty((len(queries), len(gallery)))
    for q in range(len(queries)):
        for g in range(len(gallery)):
            a, b = averaged[q], averaged[len(queries) + g]
            jaccard = 1 - np.minimum(a, b).sum() / np.maximum(a, b).sum()
            distance[q, g] = (1 - weight) * jaccard + weight * (1 - similar[q, len(queries) + g])
    return distance


@pytest.mark.parametrize(("k1", "k2"), [(9, 1), (9, 4), (7, 1), (3, 2)])
def test_k_reciprocal_equals_sets_and_loops(clusters, k1, k2):
    """Half of 7 is 4, as ``np.around`` of the paper's code says; half of 9 too."""
    points, _ = clusters(70, 5, 6)
    points = unit(points)
    queries, gallery = points[:25], points[25:]
    method = KReciprocal(k1=k1, k2=k2, weight=0.3)
    rows = _JaccardRows(torch.from_numpy(queries), torch.from_numpy(gallery), method).rows(0, 25)
    expected = plain_k_reciprocal(queries, gallery, k1, k2, 0.3)
    np.testing.assert_allclose(-rows.numpy(), expected, atol=1e-6)


@pytest.mark.parametrize(("ties", "rank"), [("worst", 3), ("best", 1)])
def test_items_that_stay_equal_are_ranked_by_the_rule_of_ties(ties, rank):
    """One relevant item and two others at the same place: re-ranking cannot tell them apart."""
    queries, gallery = [[1.0, 0.0]], [[0.6, 0.8], [0.6, 0.8], [0.6, 0.8], [-1.0, 0.0]]
    sets = queries, [0], ("mrr",), gallery, [0, 1, 2, 3]
    for method in (None, KReciprocal(k1=3, k2=1)):
        assert evaluate(*sets, ties=ties, rerank=method)["mrr"] == pytest.approx(1 / rank)


def test_k_reciprocal_helps_where_classes_are_curved():
    random = np.random.default_rng(0)
    angle = random.uniform(0, 1, 300)
    labels = np.arange(300) % 3
    points = np.stack([np.cos(angle * 2), np.sin(angle * 2), 0.35 * labels], 1)
    points += 0.02 * random.normal(size=points.shape)
    plain, better = (evaluate(points, labels, "map", rerank=by) for by in (None, "k-reciprocal"))
    assert better["map"] > plain["map"] + 0.05


@pytest.mark.parametrize("itself", [True, False])
def test_alpha_expansion_equals_a_loop(clusters, itself):
    points, labels = clusters(60, 5, 5)
    points = unit(points)
    queries, gallery = (points, points) if itself else (points[:20], points[20:])
    expected = []
    for i, query in enumerate(queries):
        similar = gallery @ query
        order = [j for j in np.argsort(-similar) if not (itself and i == j)][:4]
        total = query + sum(max(similar[j], 0) ** 3 * gallery[j] for j in order)
        expected.append(total / np.linalg.norm(total))
    tensors = torch.from_numpy(queries), torch.from_numpy(gallery)
    found = AlphaExpansion(neighbours=4, alpha=3).expand(*tensors, itself=itself)
    np.testing.assert_allclose(found.numpy(), expected, atol=1e-5)
    own = labels if itself else labels[:20]
    others = () if itself else (gallery, labels[20:])
    better = evaluate(queries, own, "map", *others, rerank=AlphaExpansion(4))
    if not itself:  # the expanded queries are ordinary ones
        assert better == evaluate(found, own, "map", *others)


def test_a_query_is_never_its_own_answer():
    points = np.eye(6, dtype=np.float32)
    labels = [0, 0, 1, 1, 2, 2]
    for method in (KReciprocal(k1=2, k2=2), AlphaExpansion(2)):
        # all tie: the worst case
        assert evaluate(points, labels, "recall@1", rerank=method) == {"recall@1": 0}


def test_few_items_and_large_k(clusters):
    points, labels = clusters(12, 4, 3)
    for method in (KReciprocal(k1=50, k2=50), AlphaExpansion(50)):
        assert 0 <= evaluate(points, labels, "map", rerank=method)["map"] <= 1


@pytest.mark.parametrize(
    ("method", "sentence"),
    [
        (KReciprocal(k1=0), "k1 and k2"),
        (KReciprocal(weight=2), "weight between"),
        (AlphaExpansion(0), "neighbours must be"),
    ],
)
def test_settings_out_of_range(method, sentence):
    with pytest.raises(BadInput, match=sentence):
        evaluate(np.eye(4), [0, 0, 1, 1], rerank=method)


@pytest.mark.parametrize(
    ("metric", "options", "sentence"),
    [
        ("nmi", {}, "cannot change 'nmi'"),
        ("map", {"distance": "l2"}, "by the cosine"),
        ("map", {"rerank": "k-reciprocl"}, "did you mean 'k-reciprocal'"),
    ],
)
def test_what_cannot_be_reranked(metric, options, sentence):
    with pytest.raises(BadInput, match=sentence):
        evaluate(np.eye(4), [0, 0, 1, 1], metric, **{"rerank": "k-reciprocal"} | options)
