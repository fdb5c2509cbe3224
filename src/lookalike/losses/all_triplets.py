"""Losses over every triplet of a batch, without an array over triplets.

The hinge is piecewise linear: once it is known how many triplets each pair takes part in, value
and gradient follow. The candidates of an anchor are sorted once; bisection says how many of them
violate a positive's margin, and prefix sums count them: N^2 log N for the batch, exactly equal to
the N^3 loss.
"""

import torch
from torch import Tensor

from lookalike.geometry import Relations, attach, compact
from lookalike.miners.mined import Ranges, between, cover

__all__ = ["hinge_over_all", "hinge_over_ranges"]


def hinge_over_all(relations: Relations, margin: float) -> Tensor:
    """``[s_an - s_ap + margin]+`` over all triplets, mean over the non-zero ones."""
    with torch.no_grad():
        similarity = relations.similarity.detach()
        away, order = (-similarity).sort(1)
        slots, weight = compact(relations.positives)
        near = -similarity.gather(1, slots)
        stop = torch.searchsorted(away, near + margin)
        start = torch.zeros_like(stop)
        value, gradient = _counted(
            similarity, slots, weight, start, stop, order, relations.negatives, margin
        )
    return attach(relations.similarity, value, gradient)


def hinge_over_ranges(similarity: Tensor, found: Ranges, margin: float) -> Tensor:
    """The same over the triplets of ``found``, whose order must be that of ``similarity``."""
    with torch.no_grad():
        bare = similarity.detach()
        away = -bare.gather(1, found.order)
        near = -bare.gather(1, found.positive)
        stop = torch.minimum(found.stop, torch.searchsorted(away, near + margin))
        start = torch.minimum(found.start, stop)
        value, gradient = _counted(
            bare,
            found.positive,
            found.weight.to(bare.dtype),
            start,
            stop,
            found.order,
            found.negative.to(bare.dtype),
            margin,
        )
    return attach(similarity, value, gradient)


def _counted(
    similarity: Tensor,
    slots: Tensor,
    weight: Tensor,
    start: Tensor,
    stop: Tensor,
    order: Tensor,
    negatives: Tensor,
    margin: float,
) -> tuple[Tensor, Tensor]:
    """Value and gradient of the mean, given which negatives violate which positive."""
    ranked = negatives.gather(1, order)
    number = between(ranked, start, stop) * weight
    covered = cover(weight, start, stop, ranked.shape[1]) * ranked
    gradient = torch.zeros_like(similarity).scatter_(1, order, covered)
    gradient.scatter_add_(1, slots, -number)
    total = number.sum()
    value = (gradient * similarity).sum() + margin * total
    scale = total.clamp_min(torch.finfo(total.dtype).tiny).reciprocal()
    return value * scale, gradient * scale
