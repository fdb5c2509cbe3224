"""``pytorch_metric_learning.utils.loss_and_miner_utils``: index tuples of pairs and triplets."""

from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor

from lookalike.miners import RandomMiner
from lookalike.miners.mined import index_tuple
from lookalike.relations import Relations

__all__ = [
    "convert_to_pairs",
    "convert_to_triplets",
    "convert_to_weights",
    "get_all_pairs_indices",
    "get_all_triplets_indices",
    "get_matches_and_diffs",
    "get_random_triplet_indices",
]

IndexTuple: TypeAlias = tuple[Tensor, ...]
"""Anchors, positives, anchors, negatives; or anchors, positives, negatives."""


def get_matches_and_diffs(
    labels: Tensor, ref_labels: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Which pairs are of one class and which of two, as bytes; an image is no pair of itself.

    Args:
        labels: Of the anchors.
        ref_labels: Of the candidates; None: the anchors themselves.

    Returns:
        Two matrices, anchors x candidates.
    """
    others = labels if ref_labels is None else ref_labels
    same = (labels.unsqueeze(1) == others).byte()
    return same.clone().fill_diagonal_(0) if others is labels else same, 1 - same


def get_all_pairs_indices(labels: Tensor, ref_labels: Tensor | None = None) -> IndexTuple:
    """All pairs: anchors and positives, anchors and negatives.

    Args:
        labels: Of the anchors.
        ref_labels: Of the candidates; None: the anchors themselves.

    Returns:
        Four index tensors.

    >>> [part.tolist() for part in get_all_pairs_indices(torch.tensor([7, 7, 8]))]
    [[0, 1], [1, 0], [0, 1, 2, 2], [2, 2, 0, 1]]
    """
    same, different = get_matches_and_diffs(labels, ref_labels)
    return *torch.where(same), *torch.where(different)


def get_all_triplets_indices(labels: Tensor, ref_labels: Tensor | None = None) -> IndexTuple:
    """All triplets: anchors, positives, negatives.

    Args:
        labels: Of the anchors.
        ref_labels: Of the candidates; None: the anchors themselves.

    Returns:
        Three index tensors.
    """
    same, different = get_matches_and_diffs(labels, ref_labels)
    anchor, positive = torch.where(same)
    pair, negative = torch.where(different[anchor])
    return anchor[pair], positive[pair], negative


def get_random_triplet_indices(
    labels: Tensor, ref_labels: Tensor | None = None, t_per_anchor: int | None = None
) -> IndexTuple:
    """Random triplets of each anchor that has a positive and a negative.

    Args:
        labels: Of the anchors.
        ref_labels: Of the candidates; None: the anchors themselves.
        t_per_anchor: How many for each anchor; None: as many as the largest class has images.

    Returns:
        Three index tensors.
    """
    same, different = (part.float() for part in get_matches_and_diffs(labels, ref_labels))
    times = t_per_anchor or max(1, int(same.sum(1).max())) if same.numel() else 1
    relations = Relations(torch.zeros_like(same), same, different)
    return index_tuple(RandomMiner(times).mine(relations))


def convert_to_pairs(
    indices_tuple: Any, labels: Tensor | None, ref_labels: Tensor | None = None
) -> IndexTuple:
    """Pairs of whatever a miner returned; None: all pairs.

    Args:
        indices_tuple: Three index tensors, four, or None.
        labels: Of the anchors.
        ref_labels: Of the candidates.

    Returns:
        Four index tensors.
    """
    if indices_tuple is None:
        assert labels is not None
        return get_all_pairs_indices(labels, ref_labels)
    if len(indices_tuple) == 4:
        return tuple(indices_tuple)
    anchor, positive, negative = indices_tuple
    return anchor, positive, anchor, negative


def convert_to_triplets(
    indices_tuple: Any,
    labels: Tensor | None,
    ref_labels: Tensor | None = None,
    t_per_anchor: int | Literal["all"] = 100,
) -> IndexTuple:
    """Triplets of whatever a miner returned; pairs make all triplets that share an anchor.

    Args:
        indices_tuple: Three index tensors, four, or None.
        labels: Of the anchors.
        ref_labels: Of the candidates.
        t_per_anchor: For None: so many random triplets an anchor, or ``all``.

    Returns:
        Three index tensors.
    """
    if indices_tuple is None:
        assert labels is not None
        if t_per_anchor == "all":
            return get_all_triplets_indices(labels, ref_labels)
        return get_random_triplet_indices(labels, ref_labels, t_per_anchor)
    if len(indices_tuple) == 3:
        return tuple(indices_tuple)
    first, positive, second, negative = indices_tuple
    pair, other = torch.where(first.unsqueeze(1) == second)
    return first[pair], positive[pair], negative[other]


def convert_to_weights(
    indices_tuple: Any, labels: Tensor, dtype: torch.dtype, using_ref: bool = False
) -> Tensor:
    """How often each image is named, over the largest count; all 1 where none is.

    Args:
        indices_tuple: Three index tensors, four, or None.
        labels: Of the anchors; only their number matters.
        dtype: Of the weights.
        using_ref: Whether the candidates are other images, so that only anchors count.

    Returns:
        One weight per image.
    """
    parts = tuple(indices_tuple or ())
    if using_ref:
        parts = parts[:1] if len(parts) == 3 else parts[::2]
    named = torch.cat([labels.new_zeros(0, dtype=torch.long), *parts])
    counts = torch.bincount(named, minlength=len(labels)).to(dtype)
    return counts / counts.max() if len(named) else torch.ones_like(counts)
