"""The face of the package in a Python session: names, reprs, and one sentence for a slip."""

import numpy as np
import pytest
import torch

import lookalike as la
from lookalike.errors import BadInput

LABELS = torch.arange(20) // 4


def test_dir_has_the_public_names_and_nothing_else():
    assert {*la.__all__, "__version__"} == set(dir(la))
    assert all(getattr(la, name) is not None for name in dir(la))


@pytest.mark.parametrize(
    ("part", "text"),
    [
        (lambda: la.losses.MultiSimilarityLoss(alpha=3), "MultiSimilarityLoss(alpha=3, "),
        (lambda: la.losses.ProxyAnchorLoss(5, 8), "ProxyAnchorLoss(num_classes=5, embedding_size"),
        (lambda: la.miners.MultiSimilarityMiner(epsilon=0.2), "MultiSimilarityMiner(epsilon=0.2)"),
        (
            lambda: la.losses.TripletMarginLoss(distance="cosine"),
            "distance=CosineSimilarity()",
        ),
        (
            lambda: la.samplers.create("spc", LABELS, batch_size=8),
            "<PerClassSampler(batch_size=8, seed=0, per_class=4, fewer_classes=False) "
            "of 20 images, 5 classes>",
        ),
    ],
)
def test_repr_shows_the_settings(part, text):
    assert text in repr(part())


def test_repr_leaves_out_shared_settings_that_have_their_default():
    assert "comparison" not in repr(la.losses.ContrastiveLoss())


def test_a_misspelt_argument_is_refused_with_the_nearest():
    with pytest.raises(BadInput, match="takes no argument 'margn'; did you mean 'margin'"):
        la.losses.TripletMarginLoss(margn=1)
    with pytest.raises(BadInput, match="takes no argument 'eps'; did you mean 'epsilon'"):
        la.miners.MultiSimilarityMiner(eps=1)


@pytest.mark.parametrize("part", [la.losses.TripletMarginLoss(), la.miners.BatchHardMiner()])
def test_arrays_are_refused_where_a_gradient_is_needed(part):
    with pytest.raises(BadInput, match=r"must be a torch.Tensor, not numpy.ndarray"):
        part(np.zeros((20, 3)), LABELS)


def test_one_metric_may_be_named_by_a_string():
    rows = torch.eye(5).repeat_interleave(4, 0)
    assert la.evaluate(rows, LABELS, "recall@1") == {"recall@1": 1.0}
