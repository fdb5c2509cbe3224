"""Value and gradient of the multi-similarity loss."""

from typing import Any

from torch import Tensor

from lookalike.ops.soft import soft_terms
from lookalike.relations import Relations, in_row_blocks

__all__ = ["multi_similarity_kernel"]


def multi_similarity_kernel(loss: Any, relations: Relations) -> tuple[Tensor, tuple[Tensor]]:
    """The mean over anchors; each exponent is computed once."""
    base, number = loss.distance.level(loss.base), relations.similarity.shape[0]

    def terms(r: Relations) -> tuple[Tensor, Tensor]:
        pull, near = soft_terms(
            r.similarity, r.positives, scale=-loss.alpha, shift=base, plus_one=True
        )
        push, far = soft_terms(
            r.similarity, r.negatives, scale=loss.beta, shift=base, plus_one=True
        )
        values = pull.div_(loss.alpha).add_(push.div_(loss.beta))
        return values, far.sub_(near).div_(number)

    values, gradient = in_row_blocks(relations, terms)
    return values.mean(), (gradient,)
