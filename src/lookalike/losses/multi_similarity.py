"""The multi-similarity loss."""

import torch
from torch import Tensor

from lookalike.losses.base import PairLoss, Terms
from lookalike.losses.direction import candidate_directions
from lookalike.losses.kernels import Kernel
from lookalike.losses.kernels.soft_sums import multi_similarity_kernel
from lookalike.ops.soft import log1p_sum_exp
from lookalike.registry import LOSSES
from lookalike.relations import Relations

__all__ = ["MultiSimilarityLoss"]


def multi_similarity(
    r: Relations, alpha: float, beta: float, base: float, repelled: Tensor
) -> Tensor:
    """``1/a log(1 + sum_P e^(-a(s-m))) + 1/b log(1 + sum_N e^(b(s-m)))``, one value per anchor.

    ``repelled`` are the similarities that negatives are judged by.
    """
    pull = log1p_sum_exp(alpha * (base - r.similarity), r.positives) / alpha
    push = log1p_sum_exp(beta * (repelled - base), r.negatives) / beta
    return pull + push


@LOSSES.register("multi-similarity", paper="Wang et al., CVPR 2019")
class MultiSimilarityLoss(PairLoss):
    """Weighs each pair by its own similarity and by those of the anchor's other pairs.

    ``1/alpha log(1 + sum_P e^(-alpha (s - base))) + 1/beta log(1 + sum_N e^(beta (s - base)))``,
    mean over anchors. ``direction``: direction regularisation; a negative's ``s_an`` becomes
    ``s_an - direction * cos(x_p - x_a, x_n - x_a)``, p the anchor's least similar positive
    (Mohan et al., CVPR 2020).

    Args:
        alpha: Steepness for positives.
        beta: Steepness for negatives.
        base: The similarity that pairs are compared with.
        direction: The weight of direction regularisation.
    """

    additive = True
    counts = False

    alpha: float = 2
    beta: float = 50
    base: float = 0.5
    direction: float = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        self.between_candidates = bool(self.direction)

    def terms(self, relations: Relations) -> Terms:
        """The formula."""
        base = self.distance.level(self.base)
        repelled = relations.similarity
        if self.direction:
            positive = relations.positives > 0
            hardest = repelled.detach().where(positive, torch.inf).argmin(1)
            directions = candidate_directions(relations, self.distance, hardest)
            repelled = repelled - self.direction * directions * positive.any(1, keepdim=True)
        return Terms(multi_similarity(relations, self.alpha, self.beta, base, repelled))

    def kernel(self, relations: Relations) -> Kernel | None:  # noqa: ARG002
        """Both sums and their gradients in one pass; none for direction regularisation."""
        return None if self.direction else multi_similarity_kernel
