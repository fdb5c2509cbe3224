"""What a miner found: pairs or triplets that any loss accepts.

Inside, all is dense (weights over anchors x candidates, ranges of a sorted row, or lists of fixed
length), so that nothing waits for the device. Unpacking gives index tuples as PML's:
``anchors, positives, negatives`` or ``anchors, positives, anchors, negatives``.
"""

from collections.abc import Iterator, Sequence
from typing import TypeAlias

import torch
from torch import Tensor

from lookalike.distances import Distance
from lookalike.errors import BadInput
from lookalike.geometry import Relations

__all__ = ["Indices", "Listed", "Mined", "Pairs", "Ranges", "mined", "narrow"]


class Mined:
    """Pairs or triplets chosen from anchors x candidates."""

    def pairs(self) -> tuple[Tensor, Tensor]:
        """How often each pair is named as positive and as negative, [anchors, candidates]."""
        raise NotImplementedError

    def indices(self) -> tuple[Tensor, ...]:
        """Three or four index tensors, as PML's. This looks at the data, so it may wait for it."""
        raise NotImplementedError

    def anchor_counts(self, positive: Tensor, negative: Tensor) -> Tensor:
        """How often each anchor is named."""
        raise NotImplementedError

    def sample_weights(self, dtype: torch.dtype, *, anchors_only: bool) -> Tensor:
        """How often each image is named, over the largest count; all 1 where nothing was found.

        With ``anchors_only`` the candidates are other images, and only anchors are counted.
        """
        positive, negative = self.pairs()
        counts = self.anchor_counts(positive, negative)
        if not anchors_only:
            counts = counts + positive.sum(0) + negative.sum(0)
        counts = counts.to(dtype)
        top = counts.max()
        return torch.where(top > 0, counts / top.clamp_min(1), torch.ones_like(counts))

    def __iter__(self) -> Iterator[Tensor]:
        return iter(self.indices())

    def __len__(self) -> int:
        return len(self.indices())

    def __getitem__(self, position: int) -> Tensor:
        return self.indices()[position]


class Pairs(Mined):
    """Positive and negative pairs: two weights (or truth values) over anchors x candidates."""

    def __init__(self, positive: Tensor, negative: Tensor) -> None:
        self.positive = positive
        self.negative = negative

    def pairs(self) -> tuple[Tensor, Tensor]:
        """The two weights."""
        return self.positive, self.negative

    def anchor_counts(self, positive: Tensor, negative: Tensor) -> Tensor:
        """Positive and negative pairs name their anchor each."""
        return positive.sum(1, dtype=torch.float32) + negative.sum(1, dtype=torch.float32)

    def indices(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Anchors and positives, anchors and negatives."""
        anchor, positive = _repeated(self.positive)
        other, negative = _repeated(self.negative)
        return anchor, positive, other, negative


def _repeated(weights: Tensor) -> tuple[Tensor, Tensor]:
    rows, columns = weights.nonzero(as_tuple=True)
    if weights.dtype == torch.bool:
        return rows, columns
    times = weights[rows, columns].round().long()
    return rows.repeat_interleave(times), columns.repeat_interleave(times)


class Listed(Mined):
    """Triplets one by one; ``keep`` False marks a place of the list that holds none."""

    def __init__(
        self,
        anchor: Tensor,
        positive: Tensor,
        negative: Tensor,
        keep: Tensor | None,
        shape: tuple[int, int],
    ) -> None:
        self.anchor = anchor
        self.positive = positive
        self.negative = negative
        self.keep = keep
        self.shape = shape

    def pairs(self) -> tuple[Tensor, Tensor]:
        """Every triplet names its positive and its negative pair."""
        return self._counted(self.positive), self._counted(self.negative)

    def _counted(self, column: Tensor) -> Tensor:
        rows, columns = self.shape
        counts = torch.zeros(rows * columns, device=column.device)
        place = self.anchor * columns + column
        once = torch.ones_like(place, dtype=counts.dtype)
        counts.index_add_(0, place, once if self.keep is None else self.keep.to(counts.dtype))
        return counts.view(rows, columns)

    def anchor_counts(self, positive: Tensor, negative: Tensor) -> Tensor:  # noqa: ARG002
        """A triplet names its anchor once."""
        return positive.sum(1)

    def indices(self) -> tuple[Tensor, Tensor, Tensor]:
        """Anchors, positives, negatives."""
        if self.keep is None:
            return self.anchor, self.positive, self.negative
        return self.anchor[self.keep], self.positive[self.keep], self.negative[self.keep]


class Ranges(Mined):
    """For each positive pair, a range of the anchor's candidates sorted from near to far.

    ``order[a]`` sorts the candidates of anchor a by ``distance``; ``negative[a, c]`` says which of
    them may be negatives. The k-th positive of a is ``positive[a, k]`` (if ``weight[a, k]``), with
    the negatives at ``order[a, start[a, k]:stop[a, k]]``. Many triplets in little room.
    """

    def __init__(
        self,
        positive: Tensor,
        weight: Tensor,
        start: Tensor,
        stop: Tensor,
        order: Tensor,
        negative: Tensor,
        distance: Distance,
    ) -> None:
        self.positive = positive
        self.weight = weight
        self.start = start
        self.stop = stop
        self.order = order
        self.negative = negative
        self.distance = distance

    def pairs(self) -> tuple[Tensor, Tensor]:
        """Counts by prefix sums: no triplet is written out."""
        ranked = self.negative.gather(1, self.order).to(self.weight.dtype)
        number = between(ranked, self.start, self.stop) * self.weight
        positive = torch.zeros_like(ranked).scatter_add_(1, self.positive, number)
        covered = cover(self.weight, self.start, self.stop, ranked.shape[1]) * ranked
        return positive, torch.zeros_like(ranked).scatter_(1, self.order, covered)

    def anchor_counts(self, positive: Tensor, negative: Tensor) -> Tensor:  # noqa: ARG002
        """A triplet names its anchor once."""
        return positive.sum(1)

    def listed(self) -> Listed:
        """Every triplet written out, [anchors, positives, candidates] places."""
        rows, slots = self.positive.shape
        columns = self.order.shape[1]
        place = torch.arange(columns, device=self.order.device)
        inside = (place >= self.start.unsqueeze(2)) & (place < self.stop.unsqueeze(2))
        may = self.negative.gather(1, self.order).bool().unsqueeze(1)
        keep = inside & may & (self.weight > 0).unsqueeze(2)
        anchor = torch.arange(rows, device=self.order.device).view(rows, 1, 1).expand_as(keep)
        return Listed(
            anchor.reshape(-1),
            self.positive.unsqueeze(2).expand_as(keep).reshape(-1),
            self.order.unsqueeze(1).expand(rows, slots, columns).reshape(-1),
            keep.reshape(-1),
            (rows, columns),
        )

    def indices(self) -> tuple[Tensor, Tensor, Tensor]:
        """Anchors, positives, negatives."""
        return self.listed().indices()


def between(ranked: Tensor, start: Tensor, stop: Tensor) -> Tensor:
    """The sum of each row of ``ranked`` from ``start`` to ``stop`` (not included)."""
    sums = torch.nn.functional.pad(ranked.cumsum(1), (1, 0))
    return sums.gather(1, stop) - sums.gather(1, start)


def cover(weight: Tensor, start: Tensor, stop: Tensor, width: int) -> Tensor:
    """For each place of a row, the sum of the weights of the ranges that hold it."""
    steps = weight.new_zeros(weight.shape[0], width + 1)
    steps.scatter_add_(1, start, weight).scatter_add_(1, stop, -weight)
    return steps.cumsum(1)[:, :width]


Indices: TypeAlias = Mined | Sequence[Tensor]


def mined(indices: Indices, shape: tuple[int, int], device: torch.device) -> Mined:
    """A mined value as it is; a plain tuple of three or four index tensors as a mined value."""
    if isinstance(indices, Mined):
        return indices
    if len(indices) not in (3, 4):
        raise BadInput(
            f"an indices_tuple has 3 tensors (triplets) or 4 (pairs); this one has {len(indices)}"
        )
    found = [torch.as_tensor(index, device=device) for index in indices]
    if len(found) == 3:
        return Listed(found[0], found[1], found[2], None, shape)
    return Pairs(_counts(found[0], found[1], shape), _counts(found[2], found[3], shape))


def _counts(rows: Tensor, columns: Tensor, shape: tuple[int, int]) -> Tensor:
    counts = torch.zeros(shape[0] * shape[1], device=rows.device)
    once = torch.ones(rows.shape, device=rows.device)
    return counts.index_add_(0, rows * shape[1] + columns, once).view(shape)


def narrow(relations: Relations, found: Mined, *, count: bool) -> Relations:
    """The relations with only the pairs found, positive and negative as the miner says.

    ``count``: a pair named several times weighs as much; otherwise it weighs 1.
    """
    positive, negative = found.pairs()
    dtype = relations.similarity.dtype
    if positive.dtype == torch.bool:
        return relations._replace(same=positive.to(dtype), valid=positive | negative)
    if not count:
        positive, negative = positive > 0, negative > 0
    positive, negative = positive.to(dtype), negative.to(dtype)
    valid = positive + negative
    return relations._replace(same=positive / valid.clamp_min(1e-30), valid=valid)
