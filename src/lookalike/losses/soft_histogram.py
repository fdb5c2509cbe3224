"""Histograms with a gradient: each value is shared by the two nearest bin edges."""

from typing import Any

import torch
from torch import Tensor

from lookalike.geometry import first_order_only

__all__ = ["histogram_of", "shares", "soft_histogram"]


class _SoftHistogram(torch.autograd.Function):
    """Rows of values, each row with its histogram."""

    @staticmethod
    def forward(ctx: Any, position: Tensor, weights: Tensor, bins: int) -> Tensor:
        left, share = shares(position, bins)
        ctx.save_for_backward(left, weights)
        return histogram_of(left, share.mul_(weights), weights, bins)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        first_order_only()
        left, weights = ctx.saved_tensors
        return gradient.diff(dim=1).gather(1, left).mul_(weights), None, None


def shares(position: Tensor, bins: int) -> tuple[Tensor, Tensor]:
    """The edge to the left of each value, and how much of it the edge to the right gets."""
    clipped = position.clamp(0, bins)
    edge = clipped.floor().clamp_max_(bins - 1)
    return edge.long(), clipped.sub_(edge)


def histogram_of(left: Tensor, share: Tensor, weights: Tensor, bins: int) -> Tensor:
    """The histogram of each row: ``share`` at the edge right of ``left``, the rest at ``left``."""
    histogram = weights.new_zeros(weights.shape[0], bins + 1)
    histogram.scatter_add_(1, left, weights - share)
    histogram[:, 1:].scatter_add_(1, left, share)
    return histogram


def soft_histogram(position: Tensor, weights: Tensor, bins: int) -> Tensor:
    """Weights summed at the ``bins + 1`` edges; a value at 2.3 gives 0.7 to edge 2, 0.3 to 3.

    >>> soft_histogram(torch.tensor([[2.25]]), torch.ones(1, 1), 3)
    tensor([[0.0000, 0.0000, 0.7500, 0.2500]])
    """
    histogram: Tensor = _SoftHistogram.apply(position, weights, bins)
    return histogram
