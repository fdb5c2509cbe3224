"""Histograms with a gradient: each value is shared by the two nearest bin edges."""

from collections.abc import Sequence

import torch
from torch import Tensor

from lookalike.ops.fused import fused

__all__ = ["histogram_of", "shares", "soft_histogram"]


def soft_histogram(position: Tensor, weights: Tensor, bins: int) -> Tensor:
    """Weights [rows, n] summed at the ``bins + 1`` edges, of values from 0 to ``bins``.

    A value at 2.3 gives 0.7 to edge 2 and 0.3 to edge 3.

    >>> soft_histogram(torch.tensor([[2.25]]), torch.ones(1, 1), 3)
    tensor([[0.0000, 0.0000, 0.7500, 0.2500]])
    """

    def formula(position: Tensor) -> Tensor:
        inside = position.clamp(0, bins)
        edges = [(1 - (inside - edge).abs()).relu() for edge in range(bins + 1)]
        return torch.stack([(share * weights).sum(1) for share in edges], 1)

    def fast(position: Tensor) -> tuple[Tensor, tuple[Tensor]]:
        left, share = shares(position, bins)
        return histogram_of(left, share.mul_(weights), weights, bins), (left,)

    def backward(
        gradient: Tensor, kept: tuple[Tensor | None, ...], _: Sequence[bool]
    ) -> tuple[Tensor]:
        (left,) = kept
        assert left is not None
        return (gradient.diff(dim=1).gather(1, left).mul_(weights),)

    return fused(formula, fast, position, backward=backward)


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
