"""Value and gradient of the margin loss with a boundary that is not learned."""

from typing import Any

import torch
from torch import Tensor

from lookalike.ops.hinge import violations
from lookalike.ops.pairs import at_places
from lookalike.relations import Relations

__all__ = ["margin_kernel"]


def margin_kernel(loss: Any, relations: Relations) -> tuple[Tensor, tuple[Tensor]]:
    """The mean over the hinges above zero, of positives and of negatives together."""
    similarity, edge = relations.similarity, loss.boundary(relations)
    if relations.triplets is None:
        weights = loss.in_triplets(relations, relations.positives, relations.negatives)
        counts: tuple[Tensor | None, ...] = (None, None)
        if not relations.binary:
            both = relations.positive_counts, relations.negative_counts
            counts = loss.in_triplets(relations, *both)
        far, pulled, pulls = violations(edge + loss.margin - similarity, weights[0], counts[0])
        near, pushed, pushes = violations(similarity - (edge - loss.margin), weights[1], counts[1])
        gradient = pushed.sub_(pulled)
    else:
        anchor, positive, negative, weight = relations.triplets
        if edge.numel() > 1:
            edge = edge.view(-1).index_select(0, anchor)
        weight, starts = weight.to(similarity.dtype), anchor * similarity.shape[1]
        to_positive, to_negative = starts + positive, starts + negative
        ap, an = at_places(similarity, to_positive), at_places(similarity, to_negative)
        far, pulled, pulls = violations(edge + loss.margin - ap, weight)
        near, pushed, pushes = violations(an - (edge - loss.margin), weight)
        gradient = torch.zeros_like(similarity)
        gradient.view(-1).index_add_(0, to_positive, pulled, alpha=-1)
        gradient.view(-1).index_add_(0, to_negative, pushed)
    count = (pulls + pushes).clamp_min_(torch.finfo(similarity.dtype).tiny)
    return (far + near) / count, (gradient.div_(count),)
