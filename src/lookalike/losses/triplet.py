"""The triplet loss, over all triplets of a batch or those a miner found."""

from typing import Literal, Unpack

from torch import Tensor

from lookalike.distances import LpDistance
from lookalike.geometry import Relations
from lookalike.losses.all_triplets import hinge_over_all
from lookalike.losses.base import LossOptions, PairLoss
from lookalike.registry import LOSSES

__all__ = ["TripletMarginLoss"]


@LOSSES.register("triplet", paper="Weinberger and Saul, JMLR 2009")
class TripletMarginLoss(PairLoss):
    """Wants each positive nearer than each negative by a margin."""

    additive = False
    default_distance = LpDistance

    def __init__(
        self,
        margin: float = 0.05,
        swap: bool = False,
        smooth_loss: bool = False,
        triplets_per_anchor: int | Literal["all"] = "all",
        **options: Unpack[LossOptions],
    ) -> None:
        super().__init__(**options)
        self.margin = margin
        self.swap = swap
        self.smooth_loss = smooth_loss
        self.triplets_per_anchor = triplets_per_anchor

    def compute(self, relations: Relations) -> Tensor:
        """The loss of these relations."""
        return hinge_over_all(relations, self.margin)
