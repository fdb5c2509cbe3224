"""What a miner found: pairs or triplets that any loss accepts.

Inside, all is dense (weights over anchors x candidates, a condition on triplets, or lists of fixed
length), so that nothing waits for the device. Unpacking gives index tuples as PML's:
``anchors, positives, negatives`` or ``anchors, positives, anchors, negatives``.
"""

from collections.abc import Iterator, Sequence
from typing import TypeAlias

import torch
from torch import Tensor

from lookalike.distances import Distance
from lookalike.errors import BadInput
from lookalike.ops.pairs import at_places, listed_pairs
from lookalike.ops.triplets import Gap, count_triplets
from lookalike.relations import Relations, Triplets

__all__ = [
    "Gaps",
    "Indices",
    "Listed",
    "Mined",
    "Pairs",
    "mined",
    "narrow",
    "narrow_triplets",
    "restrict",
]


class Mined:
    """Pairs or triplets chosen from anchors x candidates."""

    once: bool = False
    """Whether every pair is named at most once, and none as both positive and negative."""

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
    """Positive and negative pairs: two weights (or truth values) over anchors x candidates.

    ``once`` promises that the weights are 0 or 1 and that no pair is positive and negative.
    """

    def __init__(self, positive: Tensor, negative: Tensor, *, once: bool) -> None:
        self.positive = positive
        self.negative = negative
        self.once = once

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
    if weights.isnan().any():
        raise BadInput("the similarities are not numbers: the embeddings hold NaN or infinity")
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
        weights = self.weights(torch.float32)
        to_positive, to_negative = (
            weights.new_zeros(self.shape[0] * self.shape[1])
            .index_add_(0, places, weights)
            .view(self.shape)
            for places in self.places()
        )
        return to_positive, to_negative

    def places(self) -> tuple[Tensor, Tensor]:
        """Where the positive and the negative pair of each lie in the flattened matrix."""
        starts = self.anchor * self.shape[1]
        return starts + self.positive, starts + self.negative

    def weights(self, dtype: torch.dtype) -> Tensor:
        """1 for a triplet, 0 for a place that holds none."""
        if self.keep is None:
            return torch.ones(self.anchor.shape, dtype=dtype, device=self.anchor.device)
        return self.keep.to(dtype)

    def anchor_counts(self, positive: Tensor, negative: Tensor) -> Tensor:  # noqa: ARG002
        """A triplet names its anchor once."""
        return positive.sum(1)

    def indices(self) -> tuple[Tensor, Tensor, Tensor]:
        """Anchors, positives, negatives."""
        if self.keep is None:
            return self.anchor, self.positive, self.negative
        return self.anchor[self.keep], self.positive[self.keep], self.negative[self.keep]


class Gaps(Mined):
    """All triplets whose gap ``s_ap - s_an`` lies in a range: many triplets in little room."""

    def __init__(
        self,
        positive: Tensor,
        negative: Tensor,
        gap: Gap,
        distance: Distance,
    ) -> None:
        self.positive = positive
        self.negative = negative
        self.gap = gap
        self.distance = distance

    def pairs(self) -> tuple[Tensor, Tensor]:
        """Counts; no triplet is written out."""
        return count_triplets(self.positive, self.negative, gap=self.gap)

    def anchor_counts(self, positive: Tensor, negative: Tensor) -> Tensor:  # noqa: ARG002
        """A triplet names its anchor once."""
        return positive.sum(1)

    def listed(self) -> Listed:
        """Every triplet written out, with a place for each positive pair and candidate."""
        pairs = listed_pairs(self.positive)
        rows, places, weight = pairs
        columns = pairs.columns(self.positive)
        near = at_places(self.gap.similarity, places).unsqueeze(1)
        keep = (self.negative[rows] > 0) & (weight > 0).unsqueeze(1)
        keep &= self.gap.of(near, rows) > 0
        candidate = torch.arange(keep.shape[1], device=rows.device)
        return Listed(
            rows.unsqueeze(1).expand_as(keep).reshape(-1),
            columns.unsqueeze(1).expand_as(keep).reshape(-1),
            candidate.expand_as(keep).reshape(-1),
            keep.reshape(-1),
            (self.positive.shape[0], self.positive.shape[1]),
        )

    def indices(self) -> tuple[Tensor, Tensor, Tensor]:
        """Anchors, positives, negatives."""
        return self.listed().indices()


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
    return Pairs(_counts(found[0], found[1], shape), _counts(found[2], found[3], shape), once=False)


def _counts(rows: Tensor, columns: Tensor, shape: tuple[int, int]) -> Tensor:
    counts = torch.zeros(shape[0] * shape[1], device=rows.device)
    once = torch.ones(rows.shape, device=rows.device)
    return counts.index_add_(0, rows * shape[1] + columns, once).view(shape)


def narrow(relations: Relations, found: Mined, *, count: bool) -> Relations:
    """The relations with only the pairs found, positive and negative as the miner says.

    ``count``: a pair named several times weighs as much; otherwise it weighs 1.
    """
    dtype = relations.similarity.dtype
    positive, negative = found.pairs()
    if not count and not found.once:
        positive, negative = positive > 0, negative > 0
    positive, negative = positive.to(dtype), negative.to(dtype)
    valid = positive + negative
    same = positive if found.once else positive / valid.clamp_min(torch.finfo(dtype).tiny)
    return relations._replace(same=same, valid=valid, binary=True, all_valid=False)


def narrow_triplets(relations: Relations, found: Mined, distance: Distance) -> Relations:
    """The relations with only the triplets found; pairs found make all triplets that they can.

    Args:
        relations: Anchors x candidates.
        found: What a miner found.
        distance: That of ``relations``; the miner may have used another one.

    Returns:
        Relations with ``triplets``, or with other pairs and the ``gap`` of their triplets.
    """
    if isinstance(found, Listed):
        weights = found.weights(relations.similarity.dtype)
        triplets = Triplets(found.anchor, found.positive, found.negative, weights)
        return relations._replace(triplets=triplets)
    if isinstance(found, Gaps):
        gap = found.gap._replace(same_order=distance.same_order(found.distance))
        pairs = Pairs(found.positive, found.negative, once=False)
        return narrow(relations, pairs, count=True)._replace(gap=gap)
    return narrow(relations, found, count=True)


def restrict(relations: Relations, found: Mined) -> Relations:
    """The relations with only the pairs found, positive and negative as the labels say.

    For losses that must know the classes of images whose pairs were not found.
    """
    positive, negative = (part.to(relations.same.dtype) for part in found.pairs())
    valid = torch.lerp(negative, positive, relations.same).clamp_max(1)
    return relations._replace(valid=valid, all_valid=False)
