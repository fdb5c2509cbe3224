"""Verification scores against scikit-learn, over all pairs."""

import math

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score, roc_curve

import lookalike as la

NAMES = ("roc-auc", "eer", "tar@1", "tar@2")


@pytest.fixture
def points():
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(0, 8, (300,), generator=generator)
    centres = torch.randn(8, 6, generator=generator)
    return centres[labels] + torch.randn(300, 6, generator=generator), labels


@pytest.mark.parametrize("distance", ["cosine", "l2"])
def test_equal_scikit_learn(points, distance, monkeypatch):
    rows, labels = points
    monkeypatch.setattr("lookalike.evaluation.space.BLOCK", 128)  # several blocks
    found = la.evaluate(rows, labels, NAMES, distance=distance)
    exact = rows.double()
    if distance == "cosine":
        exact = torch.nn.functional.normalize(exact)
    i, j = np.triu_indices(len(rows), 1)
    similarity = -torch.cdist(exact, exact)[i, j].numpy()
    same = (labels[i] == labels[j]).numpy()
    accepted, right, _ = roc_curve(same, similarity, drop_intermediate=False)
    at = np.argmin(abs(accepted - (1 - right)))
    assert found["roc-auc"] == pytest.approx(roc_auc_score(same, similarity), abs=1e-5)
    assert found["eer"] == pytest.approx((accepted[at] + 1 - right[at]) / 2, abs=1e-3)
    for k in (1, 2):
        assert found[f"tar@{k}"] == pytest.approx(right[accepted <= 10.0**-k].max(), abs=1e-3)


def test_ends():
    apart = torch.eye(4)[[0, 0, 1, 1]]
    perfect = la.evaluate(apart, [0, 0, 1, 1], NAMES)
    assert perfect == {"roc-auc": 1.0, "eer": 0.0, "tar@1": 1.0, "tar@2": 1.0}
    worst = la.evaluate(apart, [0, 1, 0, 1], ("roc-auc", "eer"))
    assert worst["roc-auc"] == pytest.approx(0.25)
    alike = la.evaluate(torch.ones(6, 3), [0, 0, 1, 1, 2, 2], ("roc-auc", "eer"))
    assert alike == {"roc-auc": 0.5, "eer": 0.5}
    one_class = la.evaluate(apart, [0, 0, 0, 0], NAMES)
    assert all(math.isnan(value) for value in one_class.values())
