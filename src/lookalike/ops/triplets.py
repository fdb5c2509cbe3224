"""Counting triplets without writing them out.

Every loss over triplets of a hinge follows from how many triplets each pair takes part in. Two
ways lead there, with equal results: comparing each listed positive with its anchor's candidates in
blocks (when positives are few, and their number may be looked at), or sorting each anchor's
candidates once, bisecting, and adding up prefix sums (N^2 log N whatever the classes).
"""

import torch
from torch import Tensor

from lookalike.ops.conditions import Comparison, Condition, Gap
from lookalike.ops.pairs import PairList, at_places, listed_pairs, picked
from lookalike.ops.sides import smaller_sides
from lookalike.ops.sync import can_sync

__all__ = ["block_rows", "count_triplets", "row_positions"]

_BLOCK = 1 << 18  # numbers in a block: 1 MB of float32, which stays near the processor
_FEW = 64  # positives an anchor, on average, above which sorting is faster


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
    condition: Condition | None = None,
) -> tuple[Tensor, Tensor]:
    """In how many triplets each pair takes part, as the positive and as the negative one.

    Triplets (a, p, n) are weighed by ``positive[a, p] * negative[a, n]``. With ``hinge = (s, m)``
    only those with ``s_an - s_ap + m > 0`` count, with ``condition`` only those that meet it.
    """
    pairs = listed_pairs(positive)
    can_list = can_sync(positive)
    gap = None if condition is None else condition.as_range(hinge is not None)
    if condition is not None and gap is None:
        comparison = None if can_list else condition.comparison()
        if comparison is not None:
            return _by_sides(positive, negative, hinge, comparison)
        return _by_blocks(negative, pairs, hinge, condition)
    if can_list and pairs.rows.numel() <= _FEW * positive.shape[0]:
        return _by_blocks(negative, pairs, hinge, condition)
    return _by_sorting(negative, pairs, hinge, gap)


def _by_blocks(
    negative: Tensor,
    pairs: PairList,
    hinge: tuple[Tensor, float] | None,
    condition: Condition | None,
) -> tuple[Tensor, Tensor]:
    as_positive = torch.zeros_like(negative)
    as_negative = torch.zeros_like(negative)
    size = max(1, min(block_rows(negative.shape[1]), pairs.rows.numel()))
    blocks = negative.new_empty(3, size, negative.shape[1])  # large new arrays are slow
    for at in range(0, pairs.rows.numel(), size):
        row, place, weight = part = PairList(*(each[at : at + size] for each in pairs))
        counted, *room = blocks[:, : row.numel()]
        torch.index_select(negative, 0, row, out=counted).mul_(weight.unsqueeze(1))
        if hinge is not None:
            similarity, margin = hinge
            near = (at_places(similarity, place) - margin).unsqueeze(1)
            counted.mul_(torch.index_select(similarity, 0, row, out=room[0]).gt_(near))
        if condition is not None:
            condition.restrict(counted, part, room)
        as_positive.view(-1).index_copy_(0, place, counted.sum(1))
        as_negative.index_add_(0, row, counted)
    return as_positive, as_negative


def _by_sides(
    positive: Tensor,
    negative: Tensor,
    hinge: tuple[Tensor, float] | None,
    comparison: Comparison,
) -> tuple[Tensor, Tensor]:
    """A block of anchors at a time, in few operations (``ops/sides.py``)."""
    sides = smaller_sides(positive.sign(), negative.sign())
    weights = torch.where(sides.positive, negative, positive).unsqueeze(2)
    smaller = sides.of_smaller(torch.where(sides.positive, positive, negative)).unsqueeze(2)
    # the smaller side holds the positives, or the negatives
    of_positive, of_negative, table = (each.to(negative.dtype) for each in comparison)
    near = sides.of_smaller(torch.where(sides.positive, of_positive, of_negative)).unsqueeze(2)
    far = torch.where(sides.positive, of_negative, of_positive).unsqueeze(1)
    as_smaller, as_larger = torch.empty_like(smaller), torch.empty_like(weights)
    room = sides.room(table.dtype)
    if hinge is not None:
        signed = sides.signed(hinge[0])
        hinge_near = (sides.of_smaller(signed) - hinge[1]).unsqueeze(2)
        other_room = sides.room(signed.dtype)
    for rows, shape in sides.blocks():
        index, flat = sides.members[rows].view(-1), room[: shape.numel()].view(-1, shape[2])
        counted = torch.index_select(table, 0, index, out=flat).view(shape)
        counted.sub_(near[rows]).gt_(far[rows])
        if hinge is not None:
            above = other_room[: shape.numel()].view(shape)
            counted.mul_(torch.gt(signed[rows].unsqueeze(1), hinge_near[rows], out=above))
        torch.bmm(counted, weights[rows], out=as_smaller[rows])
        torch.bmm(counted.mT, smaller[rows], out=as_larger[rows])
    counts = as_larger.mul_(weights).squeeze(2)
    own = torch.zeros_like(counts).scatter_add_(
        1, sides.members, as_smaller.mul_(smaller).squeeze(2)
    )
    return torch.where(sides.positive, own, counts), torch.where(sides.positive, counts, own)


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
