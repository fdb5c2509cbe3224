"""Neighbourhood components analysis."""

from typing import Unpack

from torch import Tensor

from lookalike.distances import LpDistance
from lookalike.geometry import Relations, log_sum_exp
from lookalike.losses.base import AnchorLoss, LossOptions
from lookalike.registry import LOSSES

__all__ = ["NCALoss", "squared_l2"]


def squared_l2() -> LpDistance:
    """Squared Euclidean distances of unit vectors."""
    return LpDistance(power=2)


@LOSSES.register("nca", paper="Goldberger et al., NeurIPS 2004")
class NCALoss(AnchorLoss):
    """The chance that a random near neighbour is of the anchor's class.

    ``-log(sum_P e^(-scale d^2) / sum_(P and N) e^(-scale d^2))``, mean over the anchors that have
    a positive.
    """

    additive = True
    default_distance = squared_l2

    def __init__(self, softmax_scale: float = 1, **options: Unpack[LossOptions]) -> None:
        super().__init__(**options)
        self.softmax_scale = softmax_scale

    def per_anchor(self, relations: Relations) -> tuple[Tensor, Tensor]:
        """Minus the log of that chance."""
        positives = relations.positives
        some = positives.sum(1).sign()
        near = log_sum_exp(relations.similarity, positives, scale=self.softmax_scale)
        all_of_them = log_sum_exp(relations.similarity, relations.valid, scale=self.softmax_scale)
        return (all_of_them - near) * some, some
