import itertools

import numpy as np
import pytest
import torch
from pytorch_metric_learning.utils.accuracy_calculator import AccuracyCalculator
from sklearn.metrics import adjusted_mutual_info_score, normalized_mutual_info_score
from sklearn.metrics.cluster import pair_confusion_matrix

from lookalike.evaluation import evaluate
from lookalike.evaluation.clustering import cluster, pair_f1


def unit(points):
    return torch.nn.functional.normalize(torch.from_numpy(points).double()).float()


def test_scores_are_those_of_scikit_learn(clusters):
    points, labels = clusters(200, 6, 8)
    found = cluster(unit(points), 8, seed=3)
    scores = evaluate(points, labels + 2**40, ("nmi", "ami", "f1"), seed=3)
    assert scores["nmi"] == pytest.approx(normalized_mutual_info_score(labels, found))
    assert scores["ami"] == pytest.approx(adjusted_mutual_info_score(labels, found))
    (_, wrong), (missed, right) = pair_confusion_matrix(labels, found)
    assert scores["f1"] == pytest.approx(2 * right / (2 * right + wrong + missed))


def test_scores_are_those_of_pml_for_the_same_clusters(clusters):
    points, labels = clusters(200, 6, 8)
    scores = evaluate(points, labels, ("nmi", "ami"))
    theirs = AccuracyCalculator(
        include=("NMI", "AMI"), kmeans_func=lambda x, k: torch.from_numpy(cluster(x, k))
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
