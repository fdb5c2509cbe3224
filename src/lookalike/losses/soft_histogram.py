"""Histograms with a gradient: each value is shared by the two nearest bin edges."""

from typing import Any

import torch
from torch import Tensor

from lookalike.geometry import PairList, at_places, first_order_only

__all__ = ["soft_histogram", "soft_histogram_of"]


class _SoftHistogram(torch.autograd.Function):
    """Rows of values, each row with its histogram."""

    @staticmethod
    def forward(ctx: Any, position: Tensor, weights: Tensor, bins: int) -> Tensor:
        left, share = _shares(position, weights, bins)
        histogram = position.new_zeros(position.shape[0], bins + 1)
        histogram.scatter_add_(1, left, weights - share)
        histogram[:, 1:].scatter_add_(1, left, share)
        ctx.save_for_backward(left, weights)
        return histogram

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        first_order_only()
        left, weights = ctx.saved_tensors
        return gradient.diff(dim=1).gather(1, left).mul_(weights), None, None


class _ListedHistogram(torch.autograd.Function):
    """A list of values, each belonging to the histogram of its row."""

    @staticmethod
    def forward(
        ctx: Any, position: Tensor, weights: Tensor, rows: Tensor, height: int, bins: int
    ) -> Tensor:
        left, share = _shares(position, weights, bins)
        histogram = position.new_zeros(height * (bins + 1))
        place = left + rows * (bins + 1)
        histogram.index_add_(0, place, weights - share).index_add_(0, place + 1, share)
        ctx.save_for_backward(left + rows * bins, weights)
        return histogram.view(height, bins + 1)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None, None]:
        first_order_only()
        place, weights = ctx.saved_tensors
        return gradient.diff(dim=1).view(-1)[place].mul_(weights), None, None, None, None


def _shares(position: Tensor, weights: Tensor, bins: int) -> tuple[Tensor, Tensor]:
    """The edge to the left of each value, and how much of its weight the edge to the right gets."""
    clipped = position.clamp(0, bins)
    edge = clipped.floor().clamp_max_(bins - 1)
    return edge.long(), clipped.sub_(edge).mul_(weights)


def soft_histogram(position: Tensor, weights: Tensor, bins: int) -> Tensor:
    """Weights summed at the ``bins + 1`` edges; a value at 2.3 gives 0.7 to edge 2, 0.3 to 3.

    >>> soft_histogram(torch.tensor([[2.25]]), torch.ones(1, 1), 3)
    tensor([[0.0000, 0.0000, 0.7500, 0.2500]])
    """
    histogram: Tensor = _SoftHistogram.apply(position, weights, bins)
    return histogram


def soft_histogram_of(position: Tensor, pairs: PairList, bins: int) -> Tensor:
    """The same of listed places of ``position`` only, by row."""
    histogram: Tensor = _ListedHistogram.apply(
        at_places(position, pairs.places), pairs.weights, pairs.rows, position.shape[0], bins
    )
    return histogram
