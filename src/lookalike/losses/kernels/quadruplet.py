"""Value and gradient of the quadruplet loss."""

from typing import Any

import torch
from torch import Tensor

from lookalike.losses.kernels.triplet import hinge_of_counts
from lookalike.ops.hinge import step
from lookalike.ops.pairs import at_places, listed_pairs
from lookalike.ops.triplets import block_rows, count_triplets
from lookalike.relations import Relations

__all__ = ["quadruplet_kernel"]


def quadruplet_kernel(loss: Any, relations: Relations) -> tuple[Tensor, tuple[Tensor]]:
    """Both hinges, from how many triplets and quadruplets above zero each pair takes part in."""
    similarity, first, second = relations.similarity, loss.margin_alpha_1, loss.margin_alpha_2
    triplets = count_triplets(relations.positives, relations.negatives, hinge=(similarity, first))
    value, gradient = hinge_of_counts(similarity, first, triplets)
    other, change = hinge_of_counts(similarity, second, _count_quadruplets(relations, second))
    return value + other, (gradient.add_(change),)


def _count_quadruplets(relations: Relations, margin: float) -> tuple[Tensor, Tensor]:
    """In how many violated quadruplets each pair is the positive one, or the negative one."""
    similarity = relations.similarity
    rows, places, weight = listed_pairs(relations.positives)
    negatives = relations.negatives.reshape(1, -1)
    as_positive, as_negative = torch.zeros_like(similarity), torch.zeros_like(negatives)
    size = block_rows(similarity.numel())
    for at in range(0, rows.numel(), size):
        row, place = rows[at : at + size], places[at : at + size]
        near = at_places(similarity, place) - margin
        counted = step(similarity.reshape(1, -1) - near.unsqueeze(1)).mul_(negatives)
        other = 1 - relations.same[row]
        pairs = other.unsqueeze(1).expand(-1, similarity.shape[0], -1)
        if relations.self_comparison:
            pairs = pairs * other.unsqueeze(2)
        counted.mul_(pairs.reshape(counted.shape)).mul_(weight[at : at + size].unsqueeze(1))
        as_positive.view(-1).index_copy_(0, place, counted.sum(1))
        as_negative += counted.sum(0, keepdim=True)
    return as_positive, as_negative.view(similarity.shape)
