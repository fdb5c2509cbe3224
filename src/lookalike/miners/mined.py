"""What a miner kept, as losses take it and as PML's index tuples.

On the way from a miner to a loss it is ``Relations`` (dense weights, lists of a fixed length or a
condition on triplets), so that nothing waits for the device. Index tuples exist only at the door
of the library: ``anchors, positives, negatives`` or ``anchors, positives, anchors, negatives``.
"""

from collections.abc import Iterator, Sequence
from typing import TypeAlias

import torch
from torch import Tensor

from lookalike.errors import BadInput
from lookalike.ops.pairs import listed_pairs
from lookalike.ops.triplets import count_triplets
from lookalike.relations import Relations, Triplets

__all__ = [
    "Indices",
    "Mined",
    "from_indices",
    "index_tuple",
    "keep_pairs",
    "list_triplets",
    "named_pairs",
    "number_of_triplets",
    "sample_weights",
    "take_pairs",
    "take_triplets",
    "together",
]


class Mined:
    """What calling a miner returns: any loss takes it, and it unpacks to PML's index tensors.

    Args:
        relations: The relations that the miner narrowed.
        hardest_first: Whether pairs unpack with the hardest first; otherwise by anchor.
    """

    def __init__(self, relations: Relations, *, hardest_first: bool = False) -> None:
        self.relations = relations
        self.hardest_first = hardest_first

    def __iter__(self) -> Iterator[Tensor]:
        return iter(index_tuple(self.relations, hardest_first=self.hardest_first))

    def __len__(self) -> int:
        pairs = self.relations.triplets is None and self.relations.condition is None
        return 4 if pairs else 3

    def __getitem__(self, position: int) -> Tensor:
        return tuple(self)[position]


Indices: TypeAlias = Mined | Sequence[Tensor]


def from_indices(indices: Indices, rows: int, columns: int, like: Tensor) -> Relations:
    """What a miner returned, or three (triplets) or four (pairs) index tensors, as Relations.

    Only what was chosen has a meaning; ``like`` has the device and type that they are to have.
    """
    if isinstance(indices, Mined):
        return indices.relations
    number = len(indices) if hasattr(indices, "__len__") else type(indices).__name__
    if number not in (3, 4):
        raise BadInput(
            f"an indices_tuple has 3 tensors (triplets) or 4 (pairs); this one has {number}"
        )
    found = [torch.as_tensor(index, device=like.device) for index in indices]
    blank = like.new_zeros(()).expand(rows, columns)
    relations = Relations(blank, blank, blank)
    if len(found) == 3:
        return relations.only_triplets(*found)
    positive, negative = (
        _counts(blank, anchor * columns + other, like.new_ones(anchor.shape))
        for anchor, other in (found[:2], found[2:])
    )
    return relations.counted_pairs(positive, negative)


def _counts(like: Tensor, places: Tensor, weights: Tensor) -> Tensor:
    """A matrix as ``like`` with the sum of the weights at each place."""
    flat = weights.new_zeros(like.shape.numel())
    return flat.index_add_(0, places, weights).view(like.shape)


def named_pairs(relations: Relations) -> tuple[Tensor, Tensor]:
    """How often each pair is named as a positive and as a negative, [anchors, candidates]."""
    if relations.triplets is not None:
        anchor, positive, negative, weights = relations.triplets
        starts = anchor * relations.similarity.shape[1]
        return (
            _counts(relations.similarity, starts + positive, weights),
            _counts(relations.similarity, starts + negative, weights),
        )
    if relations.condition is not None:
        return count_triplets(
            relations.positives, relations.negatives, condition=relations.condition
        )
    return relations.positives, relations.negatives


def number_of_triplets(relations: Relations) -> Tensor:
    """How many triplets a miner named."""
    if relations.triplets is not None:
        return relations.triplets.weights.sum()
    return named_pairs(relations)[0].sum()


def list_triplets(relations: Relations) -> Relations:
    """The triplets of a condition, with an entry for each positive pair and candidate."""
    condition = relations.condition
    assert condition is not None
    pairs = listed_pairs(relations.positives)
    keep = relations.negatives.index_select(0, pairs.rows) * condition.inside(pairs)
    keep = (keep * pairs.weights.unsqueeze(1)) > 0
    candidate = torch.arange(keep.shape[1], device=keep.device)
    anchor, positive = pairs.rows.unsqueeze(1), pairs.columns(relations.similarity).unsqueeze(1)
    lists = (part.expand_as(keep).reshape(-1) for part in (anchor, positive, candidate, keep))
    return relations.only_triplets(*lists)


def index_tuple(relations: Relations, *, hardest_first: bool = False) -> tuple[Tensor, ...]:
    """Three or four index tensors as PML's; reading them may wait for the device.

    ``hardest_first``: positive pairs from the least similar, negative from the most similar one;
    among equals, and otherwise, by anchor.
    """
    if relations.condition is not None:
        relations = list_triplets(relations)
    if relations.triplets is not None:
        anchor, positive, negative, weights = relations.triplets
        keep = weights > 0
        return anchor[keep], positive[keep], negative[keep]
    pulled, pushed = _repeated(relations.positives), _repeated(relations.negatives)
    if hardest_first:
        pulled = _sorted(pulled, -relations.similarity)
        pushed = _sorted(pushed, relations.similarity)
    return pulled + pushed


def _sorted(pairs: tuple[Tensor, Tensor], hardness: Tensor) -> tuple[Tensor, Tensor]:
    """The pairs from the hardest to the easiest."""
    order = hardness[pairs].argsort(descending=True, stable=True)
    return pairs[0][order], pairs[1][order]


def _repeated(counts: Tensor) -> tuple[Tensor, Tensor]:
    """Rows and columns of the pairs, each as often as it counts."""
    if counts.isnan().any():
        raise BadInput("the similarities are not numbers: the embeddings hold NaN or infinity")
    rows, columns = counts.nonzero(as_tuple=True)
    times = counts[rows, columns].round().long()
    return rows.repeat_interleave(times), columns.repeat_interleave(times)


def take_pairs(relations: Relations, mined: Relations, *, count: bool) -> Relations:
    """A loss's relations with only the pairs that a miner chose, positive and negative as it says.

    ``count``: a pair that is named several times weighs as much; otherwise it weighs 1.
    """
    direct = mined.triplets is None and mined.condition is None and (count or mined.once)
    if not direct:
        positive, negative = named_pairs(mined)
        if not count:
            positive, negative = (part.sign() for part in (positive, negative))
        mined = mined.counted_pairs(positive, negative)
    return _with_pairs(relations, mined)


def take_triplets(relations: Relations, mined: Relations) -> Relations:
    """A loss's relations with only the triplets that a miner chose; pairs make all they can."""
    if mined.triplets is not None:
        return relations._replace(triplets=mined.triplets, condition=None, mined=True)
    condition = mined.condition
    if condition is not None and relations.distance is not None and mined.distance is not None:
        condition = condition.with_order(relations.distance.same_order(mined.distance))
    return _with_pairs(relations, mined)._replace(condition=condition)


def _with_pairs(relations: Relations, mined: Relations) -> Relations:
    dtype = relations.similarity.dtype
    return relations._replace(
        same=mined.same.to(dtype),
        valid=mined.valid.to(dtype),
        binary=True,
        all_valid=False,
        mined=True,
        once=mined.once,
    )


@torch.no_grad()
def together(mined: Relations, indices: Indices) -> Relations:
    """What a miner chose, and further pairs or triplets; triplets only if both are."""
    height, width = mined.similarity.shape
    other = from_indices(indices, height, width, mined.similarity)
    if mined.condition is not None:
        mined = list_triplets(mined)
    if mined.triplets is not None and other.triplets is not None:
        lists = zip(mined.triplets, other.triplets, strict=True)
        joined = Triplets(*(torch.cat(parts) for parts in lists))
        return mined._replace(triplets=joined)
    (pulled, pushed), (more_pulled, more_pushed) = named_pairs(mined), named_pairs(other)
    return mined.counted_pairs(pulled + more_pulled, pushed + more_pushed)


def keep_pairs(relations: Relations, mined: Relations) -> Relations:
    """The relations with only the pairs chosen, positive and negative as the labels say.

    For losses that must know the classes of images whose pairs were not chosen.
    """
    positive, negative = (part.to(relations.same.dtype) for part in named_pairs(mined))
    valid = torch.lerp(negative, positive, relations.same).clamp_max(1)
    return relations._replace(valid=valid, all_valid=False, mined=True)


def sample_weights(mined: Relations, dtype: torch.dtype, *, anchors_only: bool) -> Tensor:
    """How often each image is named, over the largest count; all 1 where nothing was chosen.

    ``anchors_only``: candidates are other images, and only anchors are counted.
    """
    positive, negative = named_pairs(mined)
    counts = positive.sum(1)
    if mined.triplets is None and mined.condition is None:
        counts = counts + negative.sum(1)  # of a pair each; a triplet names its anchor once
    if not anchors_only:
        counts = counts + positive.sum(0) + negative.sum(0)
    counts = counts.to(dtype)
    top = counts.max()
    return torch.where(top > 0, counts / top.clamp_min(1), torch.ones_like(counts))
