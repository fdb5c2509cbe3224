"""The binomial deviance loss."""

from typing import Unpack

from torch import Tensor
from torch.nn.functional import softplus

from lookalike.geometry import Relations, weighted_mean
from lookalike.losses.base import LossOptions, PairLoss
from lookalike.registry import LOSSES

__all__ = ["BinomialDevianceLoss"]


@LOSSES.register("binomial-deviance", paper="Yi et al., ICPR 2014")
class BinomialDevianceLoss(PairLoss):
    """A soft contrastive loss on cosines, negatives weighted by a cost.

    ``mean_P log(1 + e^(-alpha (s - beta))) + mean_N log(1 + e^(alpha cost (s - beta)))``.
    """

    additive = True

    def __init__(
        self,
        alpha: float = 2,
        beta: float = 0.5,
        cost: float = 25,
        **options: Unpack[LossOptions],
    ) -> None:
        super().__init__(**options)
        self.alpha = alpha
        self.beta = beta
        self.cost = cost

    def compute(self, relations: Relations) -> Tensor:
        """The loss of these relations."""
        beyond = (relations.similarity - self.distance.level(self.beta)) * self.alpha
        pull = weighted_mean(softplus(-beyond), relations.positives, relations.positive_counts)
        push = softplus(self.cost * beyond)
        return pull + weighted_mean(push, relations.negatives, relations.negative_counts)
