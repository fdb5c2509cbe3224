"""Counting triplets without writing them out.

Every loss over triplets of a hinge follows from how many triplets each pair takes part in. Two
ways lead there, with equal results: comparing each listed positive with its anchor's candidates in
blocks (when positives are few, and their number may be looked at), or sorting each anchor's
candidates once, bisecting, and adding up prefix sums (N^2 log N whatever the classes).
"""

from typing import NamedTuple

import torch
from torch import Tensor

from lookalike.ops.pairs import PairList, at_places, listed_pairs, picked
from lookalike.ops.sync import can_sync

__all__ = ["Gap", "block_rows", "count_triplets", "row_positions"]

_BLOCK = 1 << 18  # numbers in a block: 1 MB of float32, which stays near the processor
_FEW = 64  # positives an anchor, on average, above which sorting is faster


class Gap(NamedTuple):
    """A condition on triplets: ``above < g_ap - g_an <= upto`` for the similarities ``g``."""

    similarity: Tensor
    above: float
    upto: float
    same_order: bool = True
    """Whether the similarities of the loss sort an anchor's candidates alike."""

    def of(self, near: Tensor, rows: Tensor) -> Tensor:
        """1 for the triplets inside, of positives at ``near`` [pairs, 1] and all candidates."""
        far = self.similarity.index_select(0, rows)
        return ((far < near - self.above) & (far >= near - self.upto)).to(far.dtype)


def block_rows(columns: int) -> int:
    """How many rows of so many columns make a block."""
    return max(1, _BLOCK // max(1, columns))


def row_positions(ranked: Tensor, rows: Tensor, values: Tensor, *, right: bool = False) -> Tensor:
    """Where each value belongs in the sorted row ``ranked[rows]`` (bisection).

    ``rows`` and ``values`` come from ``listed_pairs``: a few pairs, or all of them in order.
    """
    if values.numel() == ranked.numel():
        return torch.searchsorted(ranked, values.view(ranked.shape), right=right).view(-1)
    size = block_rows(ranked.shape[1])
    places = torch.empty_like(rows)
    for at in range(0, rows.numel(), size):
        part = slice(at, at + size)
        sought = values[part].unsqueeze(1)
        found = torch.searchsorted(ranked.index_select(0, rows[part]), sought, right=right)
        places[part] = found.squeeze(1)
    return places


def count_triplets(
    positive: Tensor,
    negative: Tensor,
    *,
    hinge: tuple[Tensor, float] | None = None,
    gap: Gap | None = None,
) -> tuple[Tensor, Tensor]:
    """In how many triplets each pair takes part, as the positive and as the negative one.

    Triplets (a, p, n) are weighed by ``positive[a, p] * negative[a, n]``. With ``hinge = (s, m)``
    only those with ``s_an - s_ap + m > 0`` count, with ``gap`` only those inside it.
    """
    pairs = listed_pairs(positive)
    few = can_sync(positive) and pairs.rows.numel() <= _FEW * positive.shape[0]
    if few or (hinge is not None and gap is not None and not gap.same_order):
        return _by_blocks(negative, pairs, hinge, gap)
    return _by_sorting(negative, pairs, hinge, gap)


def _by_blocks(
    negative: Tensor,
    pairs: PairList,
    hinge: tuple[Tensor, float] | None,
    gap: Gap | None,
) -> tuple[Tensor, Tensor]:
    as_positive = torch.zeros_like(negative)
    as_negative = torch.zeros_like(negative)
    size = max(1, min(block_rows(negative.shape[1]), pairs.rows.numel()))
    blocks = negative.new_empty(3, size, negative.shape[1])  # large new arrays are slow
    alike = gap is None or gap.similarity.dtype == negative.dtype
    for at in range(0, pairs.rows.numel(), size):
        row, place, weight = (each[at : at + size] for each in pairs)
        counted, far, inside = blocks[:, : row.numel()]
        torch.index_select(negative, 0, row, out=counted).mul_(weight.unsqueeze(1))
        if hinge is not None:
            similarity, margin = hinge
            near = (at_places(similarity, place) - margin).unsqueeze(1)
            counted.mul_(torch.index_select(similarity, 0, row, out=far).gt_(near))
        if gap is not None:
            near = at_places(gap.similarity, place).unsqueeze(1)
            far = torch.index_select(gap.similarity, 0, row, out=far if alike else None)
            if gap.above != -torch.inf:
                counted.mul_(torch.lt(far, near - gap.above, out=inside))
            if gap.upto != torch.inf:
                counted.mul_(far.ge_(near - gap.upto))
        as_positive.view(-1).index_copy_(0, place, counted.sum(1))
        as_negative.index_add_(0, row, counted)
    return as_positive, as_negative


def _by_sorting(
    negative: Tensor,
    pairs: PairList,
    hinge: tuple[Tensor, float] | None,
    gap: Gap | None,
) -> tuple[Tensor, Tensor]:
    rows, places, weight = pairs
    height, width = negative.shape
    similarity = hinge[0] if hinge is not None else gap.similarity if gap is not None else negative
    away, order = (-similarity).sort(1)
    start = torch.zeros_like(rows)
    stop = torch.full_like(rows, width)
    if hinge is not None:
        near = -at_places(similarity, places) + hinge[1]
        stop = torch.minimum(stop, row_positions(away, rows, near))
    if gap is not None:
        away = -gap.similarity.gather(1, order)
        near = -at_places(gap.similarity, places)
        if gap.above != -torch.inf:
            start = row_positions(away, rows, near + gap.above, right=True)
        if gap.upto != torch.inf:
            stop = torch.minimum(stop, row_positions(away, rows, near + gap.upto, right=True))
    start = torch.minimum(start, stop)

    ranked = negative.gather(1, order)
    sums = torch.nn.functional.pad(ranked.cumsum(1), (1, 0))
    number = (picked(sums, rows, stop) - picked(sums, rows, start)) * weight
    as_positive = torch.zeros_like(negative)
    as_positive.view(-1).index_copy_(0, places, number)

    steps = negative.new_zeros(height, width + 1)
    steps.view(-1).index_add_(0, rows * (width + 1) + start, weight)
    steps.view(-1).index_add_(0, rows * (width + 1) + stop, -weight)
    covered = steps.cumsum(1)[:, :width] * ranked
    return as_positive, torch.zeros_like(negative).scatter_(1, order, covered)
