"""The intra-pair variance loss."""

from typing import Unpack

from torch import Tensor

from lookalike.geometry import Relations, weighted_mean
from lookalike.losses.base import LossOptions, PairLoss
from lookalike.registry import LOSSES

__all__ = ["IntraPairVarianceLoss"]


@LOSSES.register("intra-pair-variance", paper="Yu et al., BMVC 2020")
class IntraPairVarianceLoss(PairLoss):
    """Positives alike among themselves, and negatives too; used beside another loss.

    ``mean_P [(1 - pos_eps) mean s - s]+^2 + mean_N [s - (1 + neg_eps) mean s]+^2``, the means over
    all positive, or negative, pairs. With a distance the roles of ``1 - eps`` and ``1 + eps`` turn.
    """

    def __init__(
        self, pos_eps: float = 0.01, neg_eps: float = 0.01, **options: Unpack[LossOptions]
    ) -> None:
        super().__init__(**options)
        self.pos_eps = pos_eps
        self.neg_eps = neg_eps

    def compute(self, relations: Relations) -> Tensor:
        """The loss of these relations."""
        similarity = relations.similarity
        positives, negatives = relations.positives, relations.negatives
        sign = 1 if self.distance.is_inverted else -1
        usual = weighted_mean(similarity, positives) * (1 - sign * self.pos_eps)
        pull = weighted_mean(
            (usual - similarity).relu().square(), positives, relations.positive_counts
        )
        usual = weighted_mean(similarity, negatives) * (1 + sign * self.neg_eps)
        push = (similarity - usual).relu().square()
        return pull + weighted_mean(push, negatives, relations.negative_counts)
