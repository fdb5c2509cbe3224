"""The angular loss."""

import math
from typing import Unpack

import torch
from torch import Tensor

from lookalike.errors import BadInput
from lookalike.geometry import Relations, listed_pairs, picked, weighted_mean
from lookalike.losses.base import LossOptions, PairLoss
from lookalike.losses.direction import among_candidates
from lookalike.registry import LOSSES

__all__ = ["AngularLoss"]


@LOSSES.register("angular", paper="Wang et al., ICCV 2017")
class AngularLoss(PairLoss):
    """Bounds the angle at the negative of each triplet.

    ``log(1 + sum_n e^(f_apn))`` with ``f = 4 tan^2(alpha) (x_a + x_p).x_n - 2 (1 + tan^2 alpha)
    x_a.x_p``, mean over positive pairs, of unit vectors (PML leaves the negatives as they come,
    and takes all negatives even when a miner found some). As ``e^(x_a.x_n + x_p.x_n)`` is a
    product, the sum over n is a matrix product: nothing of size N^3.
    """

    additive = False
    among = True

    def __init__(self, alpha: float = 40, **options: Unpack[LossOptions]) -> None:
        super().__init__(**options)
        if not self.distance.ordered_by_cosine:
            raise BadInput("the angular loss needs unit vectors (distance cosine or l2)")
        self.alpha = alpha

    def compute(self, relations: Relations) -> Tensor:
        """The loss of these relations."""
        tan2 = math.tan(math.radians(self.alpha)) ** 2
        cosine, among = relations.similarity, among_candidates(relations)
        if not self.distance.is_inverted:
            cosine = 1 - self.distance.squared_euclidean(cosine) / 2
            among = cosine if relations.within else 1 - self.distance.squared_euclidean(among) / 2
        rows, columns, weight = listed_pairs(relations.positives)
        near = picked(cosine, rows, columns)
        of_anchor = (4 * tan2 * (cosine - 1)).exp()
        of_candidate = of_anchor if among is cosine else (4 * tan2 * (among - 1)).exp()
        together = (of_anchor * relations.negatives) @ of_candidate.T
        summed = picked(together, rows, columns)
        some = summed > torch.finfo(summed.dtype).tiny
        exponent = summed.where(some, 1).log() + 8 * tan2 - 2 * (1 + tan2) * near
        terms = torch.where(some, torch.nn.functional.softplus(exponent), 0)
        return weighted_mean(terms, weight)
