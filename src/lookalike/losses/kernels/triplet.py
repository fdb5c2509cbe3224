"""Value and gradient of triplet losses, without an array over all triplets."""

from typing import Any

import torch
from torch import Tensor

from lookalike.ops.blocks import sweep_size
from lookalike.ops.pairs import PairList, at_places, listed_pairs
from lookalike.ops.sync import can_sync
from lookalike.ops.triplets import block_rows, count_triplets
from lookalike.relations import Relations

__all__ = ["all_triplets_kernel", "blocks_kernel", "hinge_of_counts"]


def hinge_of_counts(
    similarity: Tensor, margin: float, counts: tuple[Tensor, Tensor], number: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """``[s_an - s_ap + margin]+``, mean over the triplets above zero, and its gradient.

    ``counts`` says in how many of those each pair takes part, by weight (``count_triplets``);
    ``number`` how many they are, where that is not their weight. The hinge is piecewise linear, so
    value and gradient follow exactly.
    """
    as_positive, as_negative = counts
    total = as_positive.sum()
    number = total if number is None else number
    scale = number.clamp_min(torch.finfo(number.dtype).tiny).reciprocal_()
    gradient = as_negative.sub_(as_positive)
    value = torch.dot(gradient.view(-1), similarity.reshape(-1)) + margin * total
    return value * scale, gradient.mul_(scale)


def all_triplets_kernel(loss: Any, relations: Relations) -> tuple[Tensor, tuple[Tensor]]:
    """The plain hinge: from how many triplets above zero each pair takes part in."""
    r, limit = relations, (relations.similarity, loss.margin)
    counts = count_triplets(r.positives, r.negatives, hinge=limit, condition=r.condition)
    number = None
    if not r.binary:
        whole = count_triplets(
            r.positive_counts, r.negative_counts, hinge=limit, condition=r.condition
        )
        number = whole[0].sum()
    value, gradient = hinge_of_counts(r.similarity, loss.margin, counts, number)
    return value, (gradient,)


def blocks_kernel(loss: Any, relations: Relations) -> tuple[Tensor, tuple[Tensor | None, ...]]:
    """Any triplet formula: a block of positive pairs at a time, the gradients added up."""
    r = relations
    pairs = listed_pairs(r.positives)
    times, columns = r.counts_of(pairs), pairs.columns(r.similarity)
    negatives, candidates = r.negatives, r.negative_counts
    similarity = r.similarity.detach().requires_grad_()
    leaves, between = [similarity], None
    if loss.between_candidates:
        between = similarity
        if not r.self_comparison:
            between = r.between_candidates().detach().requires_grad_()
            leaves.append(between)
    gradients = [torch.zeros_like(leaf) for leaf in leaves]
    total, count = similarity.new_zeros(()), similarity.new_zeros(())
    size = block_rows(similarity.shape[1])
    if not can_sync(similarity):
        size = max(1, sweep_size(similarity) // similarity.shape[1])
    for at in range(0, pairs.rows.numel(), size):
        part = slice(at, at + size)
        rows = pairs.rows[part]
        weights = negatives.index_select(0, rows) * pairs.weights[part].unsqueeze(1)
        counts = candidates.index_select(0, rows) * times[part].unsqueeze(1)
        if r.condition is not None:
            inside = r.condition.inside(PairList(rows, pairs.places[part], pairs.weights[part]))
            weights, counts = weights * inside, counts * inside
        with torch.enable_grad():
            values = loss.per_triplet(
                at_places(similarity, pairs.places[part]).unsqueeze(1),
                similarity.index_select(0, rows),
                None if between is None else between.index_select(0, columns[part]),
            )
            summed = (values * weights).sum()
            for kept, new in zip(gradients, torch.autograd.grad(summed, leaves), strict=True):
                kept.add_(new)
        if not loss.direction:
            counts = counts * (values.detach() > 0)
        total, count = total + summed.detach(), count + counts.sum()
    scale = count.clamp_min(torch.finfo(count.dtype).tiny).reciprocal()
    return total * scale, tuple(gradient.mul_(scale) for gradient in gradients)
