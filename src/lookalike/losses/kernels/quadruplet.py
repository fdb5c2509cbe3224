"""Value and gradient of the quadruplet loss."""

from typing import Any

import torch
from torch import Tensor

from lookalike.losses.kernels.triplet import hinge_of_counts
from lookalike.ops.hinge import step
from lookalike.ops.pairs import PairList, at_places, listed_pairs
from lookalike.ops.sync import can_sync
from lookalike.ops.triplets import block_rows, count_triplets
from lookalike.relations import Relations

__all__ = ["quadruplet_kernel"]

_FEW = 320  # positive pairs, up to which comparing each with all negative pairs is faster


def quadruplet_kernel(loss: Any, relations: Relations) -> tuple[Tensor, tuple[Tensor]]:
    """Both hinges, from how many triplets and quadruplets above zero each pair takes part in."""
    similarity, first, second = relations.similarity, loss.margin_alpha_1, loss.margin_alpha_2
    triplets = count_triplets(relations.positives, relations.negatives, hinge=(similarity, first))
    value, gradient = hinge_of_counts(similarity, first, triplets)
    by_class = loss.label_comparison is None
    quadruplets = _count_quadruplets(relations, second, by_class=by_class)
    other, change = hinge_of_counts(similarity, second, quadruplets)
    return value + other, (gradient.add_(change),)


def _count_quadruplets(
    relations: Relations, margin: float, *, by_class: bool
) -> tuple[Tensor, Tensor]:
    """In how many violated quadruplets each pair is the positive one, or the negative one."""
    pairs = listed_pairs(relations.positives)
    few = can_sync(relations.similarity) and pairs.rows.numel() <= _FEW
    classes = _classes(relations) if by_class and not few else None
    if classes is None:
        return _by_blocks(relations, pairs, margin)
    return _by_sorting(relations, *classes, margin)


def _classes(relations: Relations) -> tuple[Tensor, Tensor] | None:
    """The classes of anchors and candidates as small numbers; None where images have several."""
    rows = relations.class_indices
    columns = rows if relations.self_comparison else relations.ref_labels
    if rows is None or columns is None or columns.ndim != 1:
        return None
    both = torch.cat([rows, columns])
    if both.dtype == torch.bool:
        both = both.long()
    places = torch.searchsorted(both.sort().values, both)
    return places[: len(rows)], places[len(rows) :]


def _by_sorting(
    relations: Relations, rows: Tensor, columns: Tensor, margin: float
) -> tuple[Tensor, Tensor]:
    """All comparisons, less those with a pair (k, l) that has k, or l, of the class of a.

    No pair has both, since k and l are of two classes. Similarities of negative pairs and bounds of
    positive ones are sorted together, once for all and once by class; sums along the order count.
    """
    shape, device = relations.similarity.shape, relations.similarity.device
    negatives, positives = relations.negatives.flatten(), relations.positives.flatten()
    flat = relations.similarity.flatten()
    # a similarity stands before an equal bound: it is not above it
    order = torch.cat([flat, flat - margin]).argsort(stable=True)
    size = flat.numel()
    weights = torch.zeros(2, 2 * size, dtype=torch.int32, device=device)
    weights[0, :size], weights[1, size:] = negatives, positives
    anchors = rows.unsqueeze(1).expand(shape).flatten()
    above, below = _counted(order, weights, torch.zeros_like(rows), None)
    excluded = [columns.expand(shape).flatten()]
    if relations.self_comparison:
        excluded.append(anchors)
    for of_negatives in excluded:
        classes = torch.cat([of_negatives, anchors])
        less = _counted(order, weights, torch.zeros_like(torch.cat([rows, columns])), classes)
        above, below = above - less[0], below - less[1]
    return (positives * above[size:]).view(shape), (negatives * below[:size]).view(shape)


def _counted(
    order: Tensor, weights: Tensor, none: Tensor, classes: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Of each element: the first weights after it and the second ones before it, in its class.

    ``none`` holds a zero for each class that there can be.
    """
    if classes is None:
        sums = weights.index_select(1, order).cumsum(1, dtype=torch.int32)
        after, before = sums[0, -1] - sums[0], sums[1]
    else:
        order = order.index_select(0, classes.index_select(0, order).argsort(stable=True))
        of_classes = none.to(weights.dtype).repeat(2, 1).index_add_(1, classes, weights)
        upto = of_classes.cumsum(1, dtype=torch.int32)
        sums = weights.index_select(1, order).cumsum(1, dtype=torch.int32)
        classes = classes.index_select(0, order)
        after = upto[0].index_select(0, classes) - sums[0]
        before = sums[1] - (upto[1] - of_classes[1]).index_select(0, classes)
    return torch.empty_like(after).scatter_(0, order, after), torch.empty_like(before).scatter_(
        0, order, before
    )


def _by_blocks(relations: Relations, pairs: PairList, margin: float) -> tuple[Tensor, Tensor]:
    """Some positive pairs at a time, compared with all negative ones."""
    similarity = relations.similarity
    rows, places, weight = pairs
    negatives = relations.negatives.reshape(1, -1)
    as_positive, as_negative = torch.zeros_like(similarity), torch.zeros_like(negatives)
    size = block_rows(similarity.numel())
    for at in range(0, rows.numel(), size):
        row, place = rows[at : at + size], places[at : at + size]
        near = at_places(similarity, place) - margin
        counted = step(similarity.reshape(1, -1) - near.unsqueeze(1)).mul_(negatives)
        other = 1 - relations.same[row]
        pairs_apart = other.unsqueeze(1).expand(-1, similarity.shape[0], -1)
        if relations.self_comparison:
            pairs_apart = pairs_apart * other.unsqueeze(2)
        counted.mul_(pairs_apart.reshape(counted.shape)).mul_(weight[at : at + size].unsqueeze(1))
        as_positive.view(-1).index_copy_(0, place, counted.sum(1))
        as_negative += counted.sum(0, keepdim=True)
    return as_positive, as_negative.view(similarity.shape)
