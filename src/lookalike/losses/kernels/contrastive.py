"""Value and gradient of the contrastive loss on distances."""

from typing import Any

import torch
from torch import Tensor

from lookalike.ops.blocks import row_blocks
from lookalike.ops.hinge import violations
from lookalike.relations import Relations

__all__ = ["contrastive_kernel"]


def contrastive_kernel(loss: Any, relations: Relations) -> tuple[Tensor, tuple[Tensor]]:
    """The mean over the hinges above zero, of positives plus of negatives."""
    level = loss.distance.level
    ends = level(loss.pos_margin), level(loss.neg_margin)
    blocks = row_blocks(relations.similarity)
    if len(blocks) == 1:
        (pull, pulled, pulls), (push, pushed, pushes) = _hinges(relations, *ends)
        pulls, pushes = _at_least_tiny(pulls), _at_least_tiny(pushes)
        gradient = pushed.div_(pushes).sub_(pulled.div_(pulls))
    else:
        # every block is worked out twice: cheaper than keeping what does not fit in the cache
        sums = relations.similarity.new_zeros(2, 2)
        for rows in blocks:
            hinges = _hinges(relations.part(rows), *ends)
            sums += torch.stack([torch.stack((total, count)) for total, _, count in hinges])
        pull, push = sums[:, 0]
        pulls, pushes = _at_least_tiny(sums[:, 1])
        gradient = torch.empty_like(relations.similarity)
        for rows in blocks:
            (_, pulled, _), (_, pushed, _) = _hinges(relations.part(rows), *ends)
            torch.sub(pushed.div_(pushes), pulled.div_(pulls), out=gradient[rows])
    return pull / pulls + push / pushes, (gradient,)


def _hinges(
    relations: Relations, pull_to: float, push_to: float
) -> tuple[tuple[Tensor, Tensor, Tensor], tuple[Tensor, Tensor, Tensor]]:
    """Of positives and of negatives: the sum of the terms above zero, their weights and number."""
    counts: tuple[Tensor, Tensor] | tuple[None, None] = (None, None)
    if not relations.binary:
        counts = (relations.positive_counts, relations.negative_counts)
    return (
        violations(pull_to - relations.similarity, relations.positives, counts[0]),
        violations(relations.similarity - push_to, relations.negatives, counts[1]),
    )


def _at_least_tiny(counts: Tensor) -> Tensor:
    return counts.clamp_min_(torch.finfo(counts.dtype).tiny)
