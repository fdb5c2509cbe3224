"""The smaller side of each anchor: its positives, or its negatives, whichever are fewer.

Triplets are positives x negatives. How many positives there are is not known without waiting for
the device, but one of the two sides has at most half of the candidates: with that one on the one
axis and all candidates on the other, half of all comparisons are enough.
"""

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from lookalike.ops.blocks import sweep_size

__all__ = ["FAR", "Sides", "smaller_sides"]

FAR = 1e30
"""Beyond every similarity; finite, because inf - inf is not a number."""


class Sides(NamedTuple):
    """Anchors [N] with the candidates of their smaller side [N, h] and of the other one [N, M]."""

    members: Tensor
    """[N, h] the candidates of the smaller side first."""
    not_smaller: Tensor
    """[N, h] whether an entry of ``members`` is none of them."""
    not_larger: Tensor
    """[N, M] whether a candidate is not of the other side."""
    positive: Tensor
    """[N, 1] whether the smaller side holds the positives."""
    triplets: Tensor
    """How many triplets there are."""

    def signed(self, matrix: Tensor) -> Tensor:
        """The matrix, minus it for anchors whose smaller side holds the negatives."""
        return torch.where(self.positive, matrix, -matrix)

    def of_smaller(self, matrix: Tensor) -> Tensor:
        """The numbers [N, h] of the smaller sides."""
        return matrix.gather(1, self.members)

    def masked(self, smaller: Tensor, larger: Tensor, value: float) -> tuple[Tensor, Tensor]:
        """``value`` where a number belongs to no candidate of its side; shaped to be compared."""
        near = smaller.masked_fill(self.not_smaller, value)
        return near.unsqueeze(2), larger.masked_fill(self.not_larger, value).unsqueeze(1)

    def added(self, smaller: Tensor, larger: Tensor) -> Tensor:
        """Both sides' numbers as one matrix [N, M], or as several [N, M, c]."""
        index = self.members.view(*self.members.shape, *[1] * (smaller.ndim - 2)).expand_as(smaller)
        return larger.scatter_add(1, index, smaller)

    def blocks(self) -> Iterator[tuple[slice, torch.Size]]:
        """Some anchors at a time, and the shape [anchors, h, M] of their comparisons."""
        number, width = self.members.shape[1], self.not_larger.shape[1]
        size = max(1, sweep_size(self.not_larger) // max(1, number * width))
        for at in range(0, len(self.not_larger), size):
            rows = slice(at, min(at + size, len(self.not_larger)))
            yield rows, torch.Size((rows.stop - at, number, width))

    def room(self, dtype: torch.dtype) -> Tensor:
        """Room for the comparisons of one block; flat."""
        _, shape = next(self.blocks())
        return torch.empty(shape.numel(), dtype=dtype, device=self.not_larger.device)


def smaller_sides(positives: Tensor, negatives: Tensor) -> Sides:
    """The sides of the positives and negatives, 0 or 1, of which no pair is both.

    >>> positives = torch.tensor([[1.0, 0, 0, 0]])
    >>> smaller_sides(positives, 1 - positives).members
    tensor([[0, 1]])
    """
    of_positives, of_negatives = positives.sum(1), negatives.sum(1)
    fewer = (of_positives <= of_negatives).unsqueeze(1)
    not_positive, not_negative = positives <= 0, negatives <= 0
    not_smaller, index = not_positive.where(fewer, not_negative).sort(dim=1, stable=True)
    half = max(1, positives.shape[1] // 2)
    return Sides(
        index[:, :half].contiguous(),
        not_smaller[:, :half],
        not_negative.where(fewer, not_positive),
        fewer,
        torch.dot(of_positives, of_negatives),
    )
