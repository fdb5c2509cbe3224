"""Arguments that a loss, a miner or a regulariser cannot work with are refused, with the reason."""

import pytest
import torch

from lookalike import losses, regularizers
from lookalike.errors import BadInput
from lookalike.registry import LOSSES, MINERS

SIZES = {"num_classes": 3, "embedding_size": 4}


@pytest.mark.parametrize(
    ("name", "settings", "reason"),
    [
        ("angular", {"distance": "snr"}, "needs unit vectors"),
        ("circle", {"distance": "l2"}, "needs a similarity"),
        ("contrastive", {"on": "distances"}, "did you mean 'distance'"),
        ("fast-ap", {"distance": "cosine"}, "needs distances of unit vectors"),
        ("histogram", {"distance": "l2"}, "needs a similarity"),
        ("histogram", {"n_bins": 10, "delta": 0.1}, "delta = 2 / n_bins"),
        ("ranked-list", {"distance": "cosine"}, "needs a distance"),
        ("ranked-list", {"imbalance": 2}, "from 0 to 1"),
        ("tuplet-margin", {"distance": "l2"}, "needs the cosine"),
        ("margin", {"triplets_per_anchor": 0}, "at least 1"),
        ("triplet", {"triplets_per_anchor": 0}, "at least 1"),
        ("proxy-nca", {"denominator": "other", **SIZES}, "did you mean 'others'"),
        ("soft-triple", {"distance": "l2", **SIZES}, "needs a similarity"),
        ("cosface", {"distance": "l2", **SIZES}, "needs the cosine"),
        ("arcface", {"distance": "l2", **SIZES}, "needs the cosine"),
    ],
)
def test_losses(name, settings, reason):
    with pytest.raises(BadInput, match=reason):
        LOSSES.find(name).build(**settings)


@pytest.mark.parametrize(
    ("name", "settings", "reason"),
    [
        ("angular", {"distance": "snr"}, "needs unit vectors"),
        ("distance-weighted", {"distance": "snr"}, "needs unit vectors"),
        ("easy-positive", {"pos_strategy": "harder"}, "did you mean 'hard'"),
        ("easy-positive", {"pos_strategy": "semihard", "neg_strategy": "all"}, "'semihard' needs"),
        ("random", {"triplets_per_anchor": 0}, "at least 1"),
        ("rho", {"probability": -1}, "from 0 to 1"),
        ("semi-hard", {"fallback": "hard"}, "did you mean 'hardest'"),
        ("triplet-margin", {"type_of_triplets": "semi-hard"}, "did you mean 'semihard'"),
    ],
)
def test_miners(name, settings, reason):
    with pytest.raises(BadInput, match=reason):
        MINERS.find(name).build(**settings)


def test_regularizers():
    with pytest.raises(BadInput, match="at least 2"):
        regularizers.create("sparse-centers", num_classes=3, centers_per_class=1)


def test_embeddings():
    labels = torch.arange(4)
    with pytest.raises(BadInput, match=r"rows, \[N, D\]"):
        losses.ContrastiveLoss()(torch.randn(4, 2, 2), labels)
    with pytest.raises(BadInput, match="floating-point"):
        losses.ContrastiveLoss()(torch.ones(4, 2, dtype=torch.long), labels)
    with pytest.raises(BadInput, match="ref_emb have 3 columns, but 2 are needed"):
        losses.ContrastiveLoss()(torch.randn(4, 2), labels, None, torch.randn(4, 3), labels)
    with pytest.raises(BadInput, match="5 columns, but 4 are needed"):
        losses.ProxyAnchorLoss(**SIZES)(torch.randn(4, 5), labels % 3)


def test_margin_of_classes_needs_class_indices():
    loss = losses.MarginLoss(num_classes=3, learn_beta=True)
    rows = torch.randn(4, 2)
    with pytest.raises(BadInput, match="one class index per embedding"):
        loss(rows, torch.eye(4, 3))
    with pytest.raises(BadInput, match="needs one class index per embedding"):
        loss.total_loss(loss.relations(rows, torch.arange(4) % 3)._replace(labels=None))


def test_quadruplets_need_classes():
    rows = torch.randn(4, 2)
    for loss in (losses.QuadrupletLoss(), losses.QuadrupletLoss(label_comparison="jaccard")):
        with pytest.raises(BadInput, match="one class index per embedding"):
            loss(rows, torch.eye(4, 3))
