import itertools
import math

import numpy as np
import pytest

from lookalike.evaluation import evaluate
from lookalike.evaluation.structure import BLOCK

NAMES = ("pi-intra", "pi-inter", "pi-ratio", "rho", "alignment", "uniformity")


def plain(points, labels, distance):
    points = points.astype(np.float64)
    if distance == "cosine":
        points = points / np.linalg.norm(points, axis=1, keepdims=True)
    pairs = list(itertools.combinations(range(len(points)), 2))
    gap = {p: np.linalg.norm(points[p[0]] - points[p[1]]) for p in pairs}
    classes = sorted(set(labels.tolist()))
    inside = [
        np.mean([gap[p] for p in pairs if labels[p[0]] == labels[p[1]] == c])
        for c in classes
        if (labels == c).sum() > 1
    ]
    means = [points[labels == c].mean(0) for c in classes]
    between = np.mean([np.linalg.norm(a - b) for a, b in itertools.combinations(means, 2)])
    singular = np.linalg.svd(points, compute_uv=False)
    shares = singular / singular.sum()
    uniform = 1 / len(shares)
    return {
        "pi-intra": np.mean(inside),
        "pi-inter": between,
        "pi-ratio": np.mean(inside) / between,
        "rho": sum(uniform * math.log(uniform / share) for share in shares),
        "alignment": np.mean([gap[p] ** 2 for p in pairs if labels[p[0]] == labels[p[1]]]),
        "uniformity": math.log(np.mean([math.exp(-2 * gap[p] ** 2) for p in pairs])),
    }


@pytest.mark.parametrize("distance", ["cosine", "l2"])
@pytest.mark.parametrize("number", [80, 12])
def test_equals_loops_over_pairs(clusters, distance, number):
    points, labels = clusters(number, 15, 6)
    labels[0] = 99  # a class of one
    found = evaluate(points, labels, NAMES, distance=distance)
    assert found == pytest.approx(plain(points, labels, distance), rel=1e-5)


def test_blocks_agree_with_the_whole(clusters, monkeypatch):
    points, labels = clusters(90, 6, 30)
    expected = evaluate(points, labels, NAMES)
    assert BLOCK > 90
    monkeypatch.setattr("lookalike.evaluation.structure.BLOCK", 13)
    assert evaluate(points, labels, NAMES) == pytest.approx(expected, rel=1e-5)


def test_a_collapsed_network():
    found = evaluate(np.ones((10, 4)), np.arange(10) // 2, NAMES)
    assert found["pi-intra"] == found["pi-inter"] == found["alignment"] == 0
    assert math.isnan(found["pi-ratio"])
    assert found["uniformity"] == pytest.approx(0)
    assert 5 < found["rho"] < math.inf


def test_nothing_to_compare():
    found = evaluate(np.eye(3), [0, 1, 2], NAMES)
    assert math.isnan(found["pi-intra"])
    assert math.isnan(found["alignment"])
    assert found["rho"] == pytest.approx(0)
    assert math.isnan(evaluate(np.eye(3), [0, 0, 0], ["pi-inter"])["pi-inter"])
    assert math.isnan(evaluate(np.ones((1, 3)), [0], ["uniformity"])["uniformity"])
