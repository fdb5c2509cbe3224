"""Counting triplets without writing them out.

Every loss over triplets of a hinge follows from how many triplets each pair takes part in. Two
ways lead there, with equal results: comparing each listed positive with its anchor's candidates in
blocks (when positives are few, and their number may be looked at), or sorting each anchor's
candidates once, bisecting, and adding up prefix sums (N^2 log N whatever the classes).
"""

from typing import NamedTuple, TypeAlias

import torch
from torch import Tensor

from lookalike.ops.pairs import PairList, at_places, listed_pairs, picked
from lookalike.ops.sides import smaller_sides
from lookalike.ops.sync import can_sync

__all__ = ["Angle", "Condition", "Gap", "block_rows", "count_triplets", "row_positions"]

_BLOCK = 1 << 18  # numbers in a block: 1 MB of float32, which stays near the processor
_FEW = 64  # positives an anchor, on average, above which sorting is faster


class Gap(NamedTuple):
    """A condition on triplets: ``above < g_ap - g_an <= upto`` for the similarities ``g``."""

    similarity: Tensor
    above: float
    upto: float
    same_order: bool = True
    """Whether the similarities of the loss sort an anchor's candidates alike."""

    def inside(self, pairs: PairList) -> Tensor:
        """1 for the triplets inside, [pairs, candidates], of these positives and all candidates."""
        near = at_places(self.similarity, pairs.places).unsqueeze(1)
        far = self.similarity.index_select(0, pairs.rows)
        return ((far < near - self.above) & (far >= near - self.upto)).to(far.dtype)


class Angle(NamedTuple):
    """A condition on triplets of unit vectors: a wide angle at the negative.

    ``d_ap^2 > factor |x_n - c|^2`` with the centre ``c = (x_a + x_p) / 2``, where ``|x_n - c|^2 =
    1 + (1 + s_ap) / 2 - s_an - s_pn``.
    """

    cosine: Tensor
    """Anchors x candidates."""
    between: Tensor
    """Candidates x candidates."""
    factor: float

    def bound(self, near: Tensor) -> Tensor:
        """What ``factor (s_an + s_pn)`` must exceed, of the cosines ``s_ap``."""
        return near * (self.factor / 2 + 2) + (1.5 * self.factor - 2)

    def inside(self, pairs: PairList) -> Tensor:
        """1 for the triplets inside, [pairs, candidates], of these positives and all candidates."""
        sums = self.cosine.index_select(0, pairs.rows)
        sums.add_(self.between.index_select(0, pairs.columns(self.cosine)))
        near = at_places(self.cosine, pairs.places).unsqueeze(1)
        return sums.mul_(self.factor).gt_(self.bound(near))


Condition: TypeAlias = Gap | Angle


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
    gap: Condition | None = None,
) -> tuple[Tensor, Tensor]:
    """In how many triplets each pair takes part, as the positive and as the negative one.

    Triplets (a, p, n) are weighed by ``positive[a, p] * negative[a, n]``. With ``hinge = (s, m)``
    only those with ``s_an - s_ap + m > 0`` count, with ``gap`` only those inside it.
    """
    pairs = listed_pairs(positive)
    few = can_sync(positive) and pairs.rows.numel() <= _FEW * positive.shape[0]
    if isinstance(gap, Angle):
        if can_sync(positive):
            return _by_blocks(negative, pairs, hinge, gap)
        return _by_sides(positive, negative, hinge, gap)
    if few or (hinge is not None and gap is not None and not gap.same_order):
        return _by_blocks(negative, pairs, hinge, gap)
    return _by_sorting(negative, pairs, hinge, gap)


def _by_blocks(
    negative: Tensor,
    pairs: PairList,
    hinge: tuple[Tensor, float] | None,
    gap: Condition | None,
) -> tuple[Tensor, Tensor]:
    as_positive = torch.zeros_like(negative)
    as_negative = torch.zeros_like(negative)
    size = max(1, min(block_rows(negative.shape[1]), pairs.rows.numel()))
    blocks = negative.new_empty(3, size, negative.shape[1])  # large new arrays are slow
    alike = not isinstance(gap, Gap) or gap.similarity.dtype == negative.dtype
    for at in range(0, pairs.rows.numel(), size):
        row, place, weight = (each[at : at + size] for each in pairs)
        counted, far, inside = blocks[:, : row.numel()]
        torch.index_select(negative, 0, row, out=counted).mul_(weight.unsqueeze(1))
        if hinge is not None:
            similarity, margin = hinge
            near = (at_places(similarity, place) - margin).unsqueeze(1)
            counted.mul_(torch.index_select(similarity, 0, row, out=far).gt_(near))
        if isinstance(gap, Angle):
            counted.mul_(gap.inside(PairList(row, place, weight)))
        elif gap is not None:
            near = at_places(gap.similarity, place).unsqueeze(1)
            far = torch.index_select(gap.similarity, 0, row, out=far if alike else None)
            if gap.above != -torch.inf:
                counted.mul_(torch.lt(far, near - gap.above, out=inside))
            if gap.upto != torch.inf:
                counted.mul_(far.ge_(near - gap.upto))
        as_positive.view(-1).index_copy_(0, place, counted.sum(1))
        as_negative.index_add_(0, row, counted)
    return as_positive, as_negative


def _by_sides(
    positive: Tensor, negative: Tensor, hinge: tuple[Tensor, float] | None, angle: Angle
) -> tuple[Tensor, Tensor]:
    """A block of anchors at a time, in few operations (``ops/sides.py``)."""
    sides = smaller_sides(positive.sign(), negative.sign())
    weights = torch.where(sides.positive, negative, positive).unsqueeze(2)
    smaller = sides.of_smaller(torch.where(sides.positive, positive, negative)).unsqueeze(2)
    # the similarity s_an is that of the smaller side, or of the other one
    cosine, between = (each.to(negative.dtype) for each in angle[:2])
    bound, less = angle.bound(cosine), -angle.factor * cosine
    near = sides.of_smaller(torch.where(sides.positive, bound, less)).unsqueeze(2)
    far = torch.where(sides.positive, less, bound).unsqueeze(1)
    table = angle.factor * between
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
