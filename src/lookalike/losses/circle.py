"""The circle loss."""

from typing import Unpack

from torch import Tensor
from torch.nn.functional import softplus

from lookalike.errors import BadInput
from lookalike.geometry import Relations, log_sum_exp, mean_of_positive
from lookalike.losses.base import LossOptions, PairLoss
from lookalike.registry import LOSSES

__all__ = ["CircleLoss"]


@LOSSES.register("circle", paper="Sun et al., CVPR 2020")
class CircleLoss(PairLoss):
    """Pairs weigh by how far they are from where they should be.

    ``softplus(log sum_P e^(-gamma [1 + m - s]+ (s - 1 + m))
    + log sum_N e^(gamma [s + m]+ (s - m)))``
    (the factors in brackets are constants), mean over the anchors that have both kinds of pairs.
    """

    additive = True
    counts = False

    def __init__(self, m: float = 0.4, gamma: float = 80, **options: Unpack[LossOptions]) -> None:
        super().__init__(**options)
        if not self.distance.is_inverted:
            raise BadInput("the circle loss needs a similarity (cosine)")
        self.m = m
        self.gamma = gamma

    def compute(self, relations: Relations) -> Tensor:
        """The loss of these relations."""
        similarity, m = relations.similarity, self.m
        positives, negatives = relations.positives, relations.negatives
        known = similarity.detach()
        pull = (1 + m - known).relu_() * (1 - m - similarity)
        push = (known + m).relu_() * (similarity - m)
        both = positives.sum(1).sign() * negatives.sum(1).sign()
        total = log_sum_exp(pull, positives, scale=self.gamma)
        total = total + log_sum_exp(push, negatives, scale=self.gamma)
        return mean_of_positive(softplus(total) * both, both)
