"""The tuplet margin loss."""

import math
from typing import Unpack

from torch import Tensor
from torch.nn.functional import softplus

from lookalike.errors import BadInput
from lookalike.geometry import Relations, at_places, listed_pairs, log_sum_exp
from lookalike.losses.base import LossOptions, PairLoss
from lookalike.registry import LOSSES

__all__ = ["TupletMarginLoss"]


@LOSSES.register("tuplet-margin", paper="Yu and Tao, ICCV 2019")
class TupletMarginLoss(PairLoss):
    """Each positive, its angle eased by a margin, against the anchor's negatives.

    ``log(1 + sum_N e^(scale (cos theta_an - cos(theta_ap - margin))))``, mean over positive pairs;
    ``margin`` in degrees.
    """

    def __init__(
        self, margin: float = 5.73, scale: float = 64, **options: Unpack[LossOptions]
    ) -> None:
        super().__init__(**options)
        if not (self.distance.is_inverted and self.distance.ordered_by_cosine):
            raise BadInput("the tuplet margin loss needs the cosine")
        self.margin = margin
        self.scale = scale

    def compute(self, relations: Relations) -> Tensor:
        """The loss of these relations."""
        pairs = listed_pairs(relations.positives)
        push = log_sum_exp(relations.similarity, relations.negatives, scale=self.scale)
        # acos has no slope at its ends; stay a hair inside
        cosine = at_places(relations.similarity, pairs.places).clamp(-1 + 1e-7, 1 - 1e-7)
        eased = (cosine.acos() - math.radians(self.margin)).cos()
        values = softplus(push.index_select(0, pairs.rows) - self.scale * eased)
        return relations.mean_over_positives(values, pairs)
