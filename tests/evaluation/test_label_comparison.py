"""Relevance by a comparison of labels of the user's."""

import numpy as np
import pytest
import torch

from lookalike import evaluate
from lookalike.errors import BadInput
from lookalike.evaluation import score

METRICS = ("recall@1", "recall@4", "map@r", "map", "mrr")


def near(x, y):
    return (x - y).abs() <= 1


def wider(x, y):
    """Not symmetric, and an item does not agree with itself."""
    return (y > x) & (y <= x + 2)


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    return rng.normal(size=(40, 6)), rng.integers(0, 12, 40), rng.normal(size=(25, 6))


@pytest.mark.parametrize(
    ("comparison", "agree"),
    [
        (near, lambda x, y: abs(int(x) - int(y)) <= 1),
        (wider, lambda x, y: int(x) < int(y) <= int(x) + 2),
    ],
)
def test_equals_sorting(comparison, agree, data, plain_ranks):
    embeddings, labels, gallery = data
    for others in ((), (gallery, labels[:25][::-1].copy())):
        found = evaluate(embeddings, labels, METRICS, *others, label_comparison=comparison)
        plain = plain_ranks(embeddings, labels, *others, agree=agree)
        assert found == pytest.approx({name: plain.score(name) for name in METRICS})


def test_equality_is_the_default(data):
    embeddings, labels, _ = data
    expected = evaluate(embeddings, labels, METRICS)
    assert evaluate(embeddings, labels, METRICS, label_comparison=torch.eq) == expected


def test_rows_and_many_labels(data):
    """Labels may be rows of numbers; in blocks where there are many."""
    embeddings, labels, _ = data
    pairs = np.stack([labels, labels % 3], 1)
    found = score(embeddings, pairs, METRICS, label_comparison=lambda x, y: (x == y).all(-1))
    assert found.scores == evaluate(embeddings, labels, METRICS)
    assert found.labels.shape == (40,)
    rng = np.random.default_rng(1)
    many, ages = rng.normal(size=(1500, 3)), rng.random(1500)
    apart = evaluate(many, ages, ["recall@1"], label_comparison=lambda x, y: (x - y).abs() < 0.1)
    assert 0.1 < apart["recall@1"] < 0.3  # chance is 0.19


def test_refusals(data):
    embeddings, labels, _ = data
    with pytest.raises(BadInput, match="needs classes"):
        evaluate(embeddings, labels, ["nmi"], label_comparison=near)
    with pytest.raises(BadInput, match="must be numbers"):
        evaluate(embeddings, [str(label) for label in labels], label_comparison=near)
    with pytest.raises(BadInput, match="no query"):
        evaluate(embeddings, labels, label_comparison=lambda x, y: x + y < 0)
