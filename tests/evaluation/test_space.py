import itertools
import math

import numpy as np
import pytest
import torch
from pytorch_metric_learning.utils.accuracy_calculator import AccuracyCalculator
from scipy.spatial.distance import cdist
from scipy.stats import entropy
from sklearn.decomposition import TruncatedSVD
from sklearn.metrics import adjusted_mutual_info_score, normalized_mutual_info_score

from lookalike.evaluation import evaluate
from lookalike.evaluation.space import BLOCK, k_means, pair_f1

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
    monkeypatch.setattr("lookalike.evaluation.space.BLOCK", 13)
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


def authors_code(points, labels):
    """What the published code of Roth et al. computes, and how: scipy and a truncated SVD."""
    inside, means = [], []
    for c in np.unique(labels):
        members = points[labels == c]
        gaps = cdist(members, members, "cosine")
        inside.append(gaps.sum() / (len(gaps) ** 2 - len(gaps)))
        means.append(members.mean(0) / np.linalg.norm(members.mean(0)))
    gaps = cdist(means, means, "cosine")
    between = gaps.sum() / (len(gaps) ** 2 - len(gaps))
    svd = TruncatedSVD(n_components=points.shape[1] - 1, n_iter=7, random_state=42).fit(points)
    spectrum = svd.singular_values_
    return {
        "pi-intra-cosine": np.mean(inside),
        "pi-inter-cosine": between,
        "pi-ratio-cosine": np.mean(inside) / between,
    } | {
        f"rho-spectrum@{k}": entropy(np.full(len(s), 1 / len(s)), s / s.sum())
        for k, s in ((k, spectrum[k - 1 :]) for k in (1, 2, 5))
    }


@pytest.mark.parametrize("block", [13, 2048])
def test_the_authors_code_has_other_definitions(clusters, monkeypatch, block):
    monkeypatch.setattr("lookalike.evaluation.space.BLOCK", block)
    points, labels = clusters(150, 12, 6)
    points = points + 0.5
    rows = points / np.linalg.norm(points, axis=1, keepdims=True)
    expected = authors_code(rows.astype(np.float64), labels)
    found = evaluate(points, labels, tuple(expected))
    assert found == pytest.approx(expected, rel=1e-4)
    scaled = rows * np.linspace(1, 3, 150)[:, None]  # the cosine does not see lengths
    names = [name for name in expected if name.endswith("cosine")]
    found = evaluate(scaled, labels, names, distance="l2")
    others = authors_code(scaled, labels)
    assert found["pi-intra-cosine"] == pytest.approx(others["pi-intra-cosine"], rel=1e-4)


def test_the_authors_variants_where_nothing_can_be_compared():
    names = ("pi-intra-cosine", "pi-inter-cosine", "pi-ratio-cosine", "rho-spectrum@9")
    assert all(math.isnan(value) for value in evaluate(np.eye(1, 4), [0], names).values())
    collapsed = evaluate(np.ones((10, 4)), np.arange(10) // 2, names)
    assert collapsed["pi-intra-cosine"] == pytest.approx(0, abs=1e-12)
    assert collapsed["pi-inter-cosine"] == pytest.approx(0, abs=1e-12)


def unit(points):
    return torch.nn.functional.normalize(torch.from_numpy(points).double()).float()


def test_scores_are_those_of_scikit_learn(clusters):
    points, labels = clusters(200, 6, 8)
    found = k_means(unit(points), 8, seed=3)
    scores = evaluate(points, labels + 2**40, ("nmi", "ami", "f1"), seed=3)
    assert scores["nmi"] == pytest.approx(normalized_mutual_info_score(labels, found))
    assert scores["ami"] == pytest.approx(adjusted_mutual_info_score(labels, found))
    assert scores["f1"] == pytest.approx(pair_f1(labels, found))


def test_scores_are_those_of_pml_for_the_same_clusters(clusters):
    points, labels = clusters(200, 6, 8)
    scores = evaluate(points, labels, ("nmi", "ami"))
    theirs = AccuracyCalculator(
        include=("NMI", "AMI"), kmeans_func=lambda x, k: torch.from_numpy(k_means(x, k))
    ).get_accuracy(unit(points), torch.from_numpy(labels))
    assert scores["nmi"] == pytest.approx(theirs["NMI"])
    assert scores["ami"] == pytest.approx(theirs["AMI"])


def test_pair_f1_equals_a_loop():
    random = np.random.default_rng(0)
    for _ in range(20):
        own, found = random.integers(0, 4, 30), random.integers(0, 5, 30)
        pairs = list(itertools.combinations(range(30), 2))
        same = [(own[i] == own[j], found[i] == found[j]) for i, j in pairs]
        right = sum(a and b for a, b in same)
        precision = right / sum(b for _, b in same)
        recall = right / sum(a for a, _ in same)
        expected = 2 * precision * recall / (precision + recall)
        assert pair_f1(own, found) == pytest.approx(expected)


def test_clear_clusters_are_found_and_the_seed_decides(clusters):
    points, labels = clusters(120, 16, 4, noise=0.05)
    assert evaluate(points, labels, ("nmi", "ami", "f1")) == pytest.approx(
        {"nmi": 1, "ami": 1, "f1": 1}
    )
    noisy, labels = clusters(300, 4, 12, noise=3)
    assert evaluate(noisy, labels, ["nmi"], seed=1) == evaluate(noisy, labels, ["nmi"], seed=1)


def test_as_many_classes_as_items():
    assert evaluate(np.eye(4), [1, 2, 3, 4], ("nmi", "f1")) == {"nmi": 1, "f1": 1}


def test_pairs_that_nobody_joins():
    assert pair_f1(np.arange(4), np.arange(4)) == 1
    assert pair_f1(np.arange(4), np.zeros(4, int)) == 0


def test_k_means_runs_once_for_all_metrics(clusters, monkeypatch):
    points, labels = clusters(60, 6, 5)
    expected = {name: evaluate(points, labels, [name])[name] for name in ("nmi", "ami", "f1")}
    runs = []

    def counted(*arguments):
        runs.append(1)
        return k_means(*arguments)

    monkeypatch.setattr("lookalike.evaluation.space.k_means", counted)
    assert evaluate(points, labels, tuple(expected)) == expected
    assert len(runs) == 1
