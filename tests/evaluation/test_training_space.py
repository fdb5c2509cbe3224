"""Metrics that read the embeddings of the training images."""

import math

import numpy as np
import pytest
import torch

from lookalike.errors import BadInput
from lookalike.evaluation import evaluate, utilization
from lookalike.evaluation.metrics import check_metrics, more_is_better
from lookalike.registry import METRICS


def plain_utilization(test, training, distance):
    if distance == "cosine":
        test, training = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (test, training))
    return np.mean([min(((q - x) ** 2).sum() for x in training) for q in test])


@pytest.mark.parametrize("distance", ["cosine", "l2"])
@pytest.mark.parametrize("memory_mb", [1, 512])
def test_utilization_equals_a_loop(clusters, monkeypatch, distance, memory_mb):
    monkeypatch.setattr("lookalike.evaluation.neighbours.COLUMNS", 13)
    test, labels = clusters(60, 5, 6)
    training, classes = clusters(47, 5, 6, seed=1)
    expected = plain_utilization(test.astype(float), training.astype(float), distance)
    found = utilization(test, training, distance=distance, memory_mb=memory_mb)
    assert found == pytest.approx(expected, rel=1e-5)
    options = {"training": training, "training_labels": classes, "distance": distance}
    scores = evaluate(test, labels, ("recall@1", "utilization"), **options)
    assert scores["utilization"] == pytest.approx(expected, rel=1e-5)


def test_more_training_items_never_raise_utilization(clusters):
    test, _ = clusters(40, 4, 3)
    clean, _ = clusters(30, 4, 3, seed=1)
    mixed = (clean[:10] + clean[10:20]) / 2
    assert utilization(test, np.concatenate([clean, mixed])) <= utilization(test, clean)
    assert utilization(test, np.concatenate([clean, test])) == pytest.approx(0, abs=1e-12)


def test_structure_of_the_training_images(clusters):
    test, labels = clusters(60, 5, 6)
    training, classes = clusters(70, 5, 8, seed=1)
    of_training = [n.replace("@k", "@2") for n in METRICS.names() if n.startswith("train-")]
    names = [name.removeprefix("train-") for name in of_training]
    assert len(names) == 8
    found = evaluate(test, labels, of_training, training=training, training_labels=classes)
    own = evaluate(training, classes, names)
    assert list(found.values()) == pytest.approx(list(own.values()))
    assert not any(more_is_better(name) for name in ("utilization", *of_training))
    assert all(metric.needs_training for metric in check_metrics(of_training))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"training": None, "training_labels": None}, "'utilization' needs the embeddings of"),
        ({"training_labels": None}, "training_labels go together"),
        ({"training": None}, "training_labels go together"),
        ({"training_labels": range(19)}, "20 training embeddings but 19 training labels"),
        ({"training": np.ones((20, 3))}, "4 columns and training embeddings 3"),
        ({"training_labels": np.ones((20, 2))}, "not a multi-hot table"),
        ({"training": np.ones((0, 4))}, "there are no training embeddings"),
    ],
)
def test_refusals(clusters, change, sentence):
    points, labels = clusters(20, 4, 3)
    options = {"training": points, "training_labels": labels} | change
    with pytest.raises(BadInput, match=sentence):
        evaluate(points, labels, "utilization", **options)


@pytest.mark.parametrize("sets", [(np.eye(2), np.eye(2)[:0]), (np.eye(2)[:0], np.eye(2))])
def test_utilization_of_nothing(sets):
    with pytest.raises(BadInput, match=r"there are no (test|training) embeddings"):
        utilization(*sets)


def test_a_tensor_is_taken_as_it_is():
    found = utilization(torch.eye(3, dtype=torch.float64), torch.eye(3)[:1] * 5)
    assert found == pytest.approx(4 / 3)
    assert math.isclose(utilization(torch.eye(3), torch.eye(3)[:1] * 5, distance="l2"), 68 / 3)
