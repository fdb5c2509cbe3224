"""Value and gradient of the generalised lifted-structure loss."""

from typing import Any

from torch import Tensor

from lookalike.ops.soft import soft_terms
from lookalike.relations import Relations, in_row_blocks

__all__ = ["generalized_lifted_structure_kernel"]


def generalized_lifted_structure_kernel(
    loss: Any, relations: Relations
) -> tuple[Tensor, tuple[Tensor]]:
    """The mean over anchors; each exponent is computed once."""
    level, number = loss.distance.level, relations.similarity.shape[0]

    def terms(r: Relations) -> tuple[Tensor, Tensor]:
        positives, negatives = r.positives, r.negatives
        pull, near = soft_terms(r.similarity, positives, scale=-1, shift=level(loss.pos_margin))
        push, far = soft_terms(r.similarity, negatives, shift=level(loss.neg_margin))
        pull.mul_(positives.sum(1, keepdim=True).sign_())
        push.mul_(negatives.sum(1, keepdim=True).sign_())
        total = pull.add_(push).relu_()
        return total, far.sub_(near).mul_(total.sign().div_(number))

    values, gradient = in_row_blocks(relations, terms)
    return values.mean(), (gradient,)
