"""The angular loss."""

import math
from typing import Unpack

import torch
from torch import Tensor
from torch.nn.functional import softplus

from lookalike.errors import BadInput
from lookalike.geometry import (
    PairList,
    Relations,
    at_places,
    attach,
    listed_pairs,
)
from lookalike.labels import can_sync
from lookalike.losses.base import LossOptions, PairLoss
from lookalike.losses.direction import among_candidates
from lookalike.registry import LOSSES
from lookalike.triplets import block_rows

__all__ = ["AngularLoss"]


@LOSSES.register("angular", paper="Wang et al., ICCV 2017")
class AngularLoss(PairLoss):
    """Bounds the angle at the negative of each triplet.

    ``log(1 + sum_n e^(f_apn))`` with ``f = 4 tan^2(alpha) (x_a + x_p).x_n - 2 (1 + tan^2 alpha)
    x_a.x_p``, mean over positive pairs, of unit vectors (PML leaves the negatives as they come,
    and takes all negatives even when a miner found some). As ``e^(x_a.x_n + x_p.x_n)`` is a
    product, the sum over n is a matrix product: nothing of size N^3.
    """

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
        pairs = listed_pairs(relations.positives)
        if can_sync(cosine):
            number = relations.positive_counts.sum()
            return _pair_by_pair(cosine, among, relations.negatives, pairs, number, tan2)
        of_anchor = (4 * tan2 * (cosine - 1)).exp()
        of_candidate = of_anchor if among is cosine else (4 * tan2 * (among - 1)).exp()
        summed = (of_anchor * relations.negatives) @ of_candidate.T
        exponents = _exponents(
            at_places(summed, pairs.places), at_places(cosine, pairs.places), tan2
        )
        return relations.mean_over_positives(softplus(exponents), pairs)


def _exponents(summed: Tensor, near: Tensor, tan2: float) -> Tensor:
    """``log sum_n e^(f_apn)``; far below zero where there is no negative."""
    some = summed > torch.finfo(summed.dtype).tiny
    return torch.where(some, summed.where(some, 1).log() + 8 * tan2 - 2 * (1 + tan2) * near, -1e30)


def _pair_by_pair(
    cosine: Tensor,
    among: Tensor,
    negatives: Tensor,
    pairs: PairList,
    number: Tensor,
    tan2: float,
) -> Tensor:
    """The same for few pairs: only the rows they need, in blocks, with the gradient."""
    with torch.no_grad():
        within = among is cosine
        of_anchor = (cosine.detach() - 1).mul_(4 * tan2).exp_()
        of_candidate = of_anchor if within else (among.detach() - 1).mul_(4 * tan2).exp_()
        to_anchor = torch.zeros_like(of_anchor)
        to_candidate = to_anchor if within else torch.zeros_like(of_candidate)
        columns, near = pairs.columns(cosine), at_places(cosine.detach(), pairs.places)
        share = pairs.weights / number.clamp_min(torch.finfo(near.dtype).tiny)
        value, pulls = near.new_zeros(()), torch.zeros_like(near)
        size = block_rows(cosine.shape[1])
        for at in range(0, near.numel(), size):
            part = slice(at, at + size)
            row, column = pairs.rows[part], columns[part]
            mine = of_anchor.index_select(0, row).mul_(negatives.index_select(0, row))
            other = of_candidate.index_select(0, column)
            summed = (mine * other).sum(1)
            exponents = _exponents(summed, near[part], tan2)
            value = value + torch.dot(softplus(exponents), share[part])
            slope = torch.sigmoid(exponents).mul_(share[part])
            pulls[part] = slope * (-2 * (1 + tan2))
            slope.div_(summed.clamp_min_(torch.finfo(summed.dtype).tiny)).mul_(4 * tan2)
            to_candidate.index_add_(0, column, mine.mul_(slope.unsqueeze(1)))
            other.mul_(negatives.index_select(0, row)).mul_(slope.unsqueeze(1))
            to_anchor.index_add_(0, row, other)
        to_anchor.mul_(of_anchor).view(-1).index_add_(0, pairs.places, pulls)
    loss = attach(cosine, value, to_anchor)
    if within:
        return loss
    return loss + attach(among, torch.zeros_like(value), to_candidate.mul_(of_candidate))
