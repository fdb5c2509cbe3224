"""What a miner kept, as losses take it and as index tensors.

Index tensors are ``anchors, positives, negatives`` (triplets) or ``anchors, positives, anchors,
negatives`` (pairs).
"""

from collections.abc import Iterator, Sequence
from typing import TypeAlias

import torch
from torch import Tensor

from lookalike.errors import BadInput
from lookalike.relations import Relations, Triplets

__all__ = ["Mined"]


class Mined:
    """What calling a miner returns: any loss takes it, and it unpacks to index tensors.

    Args:
        relations: The relations that the miner narrowed.
    """

    def __init__(self, relations: Relations) -> None:
        self.relations = relations

    def __iter__(self) -> Iterator[Tensor]:
        return iter(index_tuple(self.relations))

    def __len__(self) -> int:
        return 4 if self.relations.triplets is None else 3

    def __getitem__(self, position: int) -> Tensor:
        return tuple(self)[position]


Indices: TypeAlias = Mined | Sequence[Tensor]


def from_indices(indices: Indices, relations: Relations) -> Relations:
    """What a miner returned, or three (triplets) or four (pairs) index tensors, as Relations.

    Only what was chosen has a meaning; ``relations`` has the anchors and candidates.
    """
    if isinstance(indices, Mined):
        return indices.relations
    number = len(indices) if hasattr(indices, "__len__") else type(indices).__name__
    if number not in (3, 4):
        raise BadInput(
            f"an indices_tuple has 3 tensors (triplets) or 4 (pairs); this one has {number}"
        )
    similarity = relations.similarity.detach()
    tensors = [torch.as_tensor(index, device=similarity.device) for index in indices]
    if len(tensors) == 3:
        anchor, positive, negative = tensors
        weights = similarity.new_ones(len(anchor), 1)
        triplets = Triplets(anchor, positive, negative.unsqueeze(1), weights)
        return relations.only_triplets(triplets)
    positives, negatives = (
        _counts(similarity, anchor, other, similarity.new_ones(anchor.shape))
        for anchor, other in (tensors[:2], tensors[2:])
    )
    return relations.only(positives, negatives)


def _counts(like: Tensor, rows: Tensor, columns: Tensor, weights: Tensor) -> Tensor:
    """A matrix as ``like`` with the sum of the weights at each pair."""
    flat_index = (rows * like.shape[1] + columns).reshape(-1)
    flat = like.new_zeros(like.numel()).index_add_(
        0, flat_index, weights.to(like.dtype).reshape(-1)
    )
    return flat.view(like.shape)


def named_pairs(mined: Relations) -> tuple[Tensor, Tensor]:
    """How often each pair is named as a positive and as a negative, [anchors, candidates]."""
    if mined.triplets is None:
        return mined.positives, mined.negatives
    anchor, positive, negative, weights = mined.triplets
    similarity = mined.similarity
    weights = weights.to(similarity.dtype)
    positives = _counts(similarity, anchor, positive, weights.sum(1))
    if negative is None:
        negatives = torch.zeros_like(similarity, requires_grad=False).index_add_(0, anchor, weights)
    else:
        negatives = _counts(similarity, anchor.unsqueeze(1), negative, weights)
    return positives, negatives


def index_tuple(mined: Relations) -> tuple[Tensor, ...]:
    """Three or four index tensors, in order of the anchors; reading them may wait for a device."""
    if mined.similarity.isnan().any():
        raise BadInput("the similarities are not numbers: the embeddings hold NaN or infinity")
    if mined.triplets is not None:
        return mined.triplets.one_by_one()
    return _repeated(mined.positives) + _repeated(mined.negatives)


def chosen_indices(relations: Relations, mined: Relations | None) -> tuple[Tensor, ...] | None:
    """What a miner chose, for parts that are called with index tensors; None: all pairs.

    An image and its own copy in a memory are no pair, which such a part does not know.
    """
    r = relations
    if mined is not None:
        return index_tuple(mined)
    if r.self_comparison or bool(((r.positives + r.negatives) > 0).all()):
        return None
    return index_tuple(r)


def _repeated(counts: Tensor) -> tuple[Tensor, Tensor]:
    """Rows and columns of the pairs, each as often as it counts."""
    rows, columns = counts.nonzero(as_tuple=True)
    times = counts[rows, columns].round().long()
    return rows.repeat_interleave(times), columns.repeat_interleave(times)


@torch.no_grad()
def merge_mined(mined: Relations, indices: Indices) -> Relations:
    """What a miner chose, and further pairs or triplets; triplets only if both are."""
    other = from_indices(indices, mined)
    if mined.triplets is not None and other.triplets is not None:
        lists = [index_tuple(each) for each in (mined, other)]
        return from_indices([torch.cat(parts) for parts in zip(*lists, strict=True)], mined)
    (pulled, pushed), (more_pulled, more_pushed) = named_pairs(mined), named_pairs(other)
    return mined.only(pulled + more_pulled, pushed + more_pushed)


def sample_weights(mined: Relations, *, anchors_only: bool) -> Tensor:
    """How often each image is named, over the largest count; all 1 where nothing was chosen.

    ``anchors_only``: candidates are other images, and only anchors are counted.
    """
    positive, negative = named_pairs(mined)
    counts = positive.sum(1)
    if mined.triplets is None:
        counts = counts + negative.sum(1)  # of a pair each; a triplet names its anchor once
    if not anchors_only:
        counts = counts + positive.sum(0) + negative.sum(0)
    top = counts.max()
    return torch.where(top > 0, counts / top.clamp_min(1), torch.ones_like(counts))


# What a miner's choice means to a loss, which names one of these as ``from_miner``: all relations
# and what was chosen of them in; what the formula reads, and a factor for each anchor, out.


def chosen_pairs(r: Relations, mined: Relations) -> tuple[Relations, None]:
    """Only the pairs that the miner names, each as often as it does."""
    return r.only(*named_pairs(mined)), None


def distinct_pairs(r: Relations, mined: Relations) -> tuple[Relations, None]:
    """Only the pairs that the miner names, each once."""
    positives, negatives = named_pairs(mined)
    return r.only(positives.sign(), negatives.sign()), None


def labelled_pairs(r: Relations, mined: Relations) -> tuple[Relations, None]:
    """Only the pairs that the miner names and that are such pairs by their labels, each once."""
    check_labels(r)
    positives, negatives = named_pairs(mined)
    return r.only(r.positives * positives.sign(), r.negatives * negatives.sign()), None


def chosen_triplets(r: Relations, mined: Relations) -> tuple[Relations, None]:
    """Only the triplets that the miner names; of named pairs all that these make."""
    if mined.triplets is None:
        return chosen_pairs(r, mined)
    return r.only_triplets(mined.triplets), None


def anchor_weights(r: Relations, mined: Relations) -> tuple[Relations, Tensor]:
    """All pairs; each anchor weighs by how often it is named: for losses of whole rankings."""
    check_labels(r)
    return r, sample_weights(mined, anchors_only=not r.self_comparison)


def image_weights(r: Relations, mined: Relations) -> tuple[Relations, Tensor]:
    """All images; each weighs by how often it is named, as an anchor or as a candidate."""
    return r, sample_weights(mined, anchors_only=False)


def weights_in_sums(r: Relations, mined: Relations) -> tuple[Relations, None]:
    """All proxies; in their sums over images each image weighs ``e^(w - 1)``."""
    times = torch.exp(sample_weights(mined, anchors_only=False) - 1)
    return r._replace(positives=r.positives * times, negatives=r.negatives * times), None


def check_labels(r: Relations) -> None:
    """Refuse relations that only indices describe."""
    if r.labels is None:
        raise BadInput("the loss reads more than the pairs that were chosen: it needs labels")
