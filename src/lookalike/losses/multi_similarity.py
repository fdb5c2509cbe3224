"""The multi-similarity loss."""

from typing import Unpack

from torch import Tensor

from lookalike.geometry import Relations, log1p_sum_exp
from lookalike.losses.base import LossOptions, PairLoss
from lookalike.registry import LOSSES

__all__ = ["MultiSimilarityLoss", "multi_similarity"]


def multi_similarity(relations: Relations, alpha: float, beta: float, base: float) -> Tensor:
    """``1/a log(1 + sum_P e^(-a(s-m))) + 1/b log(1 + sum_N e^(b(s-m)))``, mean over anchors."""
    pull = log1p_sum_exp(alpha * (base - relations.similarity), relations.positives) / alpha
    push = log1p_sum_exp(beta * (relations.similarity - base), relations.negatives) / beta
    return (pull + push).mean()


@LOSSES.register("multi-similarity", paper="Wang et al., CVPR 2019")
class MultiSimilarityLoss(PairLoss):
    """Weighs each pair by its own similarity and by those of the anchor's other pairs.

    ``1/alpha log(1 + sum_P e^(-alpha (s - base))) + 1/beta log(1 + sum_N e^(beta (s - base)))``,
    mean over anchors.
    """

    counts = False

    def __init__(
        self,
        alpha: float = 2,
        beta: float = 50,
        base: float = 0.5,
        **options: Unpack[LossOptions],
    ) -> None:
        super().__init__(**options)
        self.alpha = alpha
        self.beta = beta
        self.base = base

    def compute(self, relations: Relations) -> Tensor:
        """The loss of these relations."""
        return multi_similarity(relations, self.alpha, self.beta, self.distance.level(self.base))
