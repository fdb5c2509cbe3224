"""The angular loss."""

import math
from typing import Any, Unpack

import torch
from torch import Tensor
from torch.nn.functional import softplus

from lookalike.errors import BadInput
from lookalike.geometry import (
    PairList,
    Relations,
    at_places,
    first_order_only,
    listed_pairs,
    weighted_mean,
)
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
        pairs = listed_pairs(relations.positives)
        near = at_places(cosine, pairs.places)
        of_anchor = (4 * tan2 * (cosine - 1)).exp()
        of_candidate = of_anchor if among is cosine else (4 * tan2 * (among - 1)).exp()
        summed = self._summed(of_anchor * relations.negatives, of_candidate, pairs)
        some = summed > torch.finfo(summed.dtype).tiny
        exponent = summed.where(some, 1).log() + 8 * tan2 - 2 * (1 + tan2) * near
        terms = torch.where(some, softplus(exponent), 0)
        return weighted_mean(terms, pairs.weights)

    def _summed(self, of_anchor: Tensor, of_candidate: Tensor, pairs: PairList) -> Tensor:
        """``sum_n A[a, n] B[p, n]`` of each pair: one by one if they are few, else all at once."""
        if pairs.rows.numel() < of_anchor.numel() // 8:
            summed: Tensor = _RowProducts.apply(
                of_anchor, of_candidate, pairs.rows, pairs.columns(of_anchor)
            )
            return summed
        return at_places(of_anchor @ of_candidate.T, pairs.places)


class _RowProducts(torch.autograd.Function):
    """Inner products of rows of A with rows of B, in blocks."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
        ctx.save_for_backward(a, b, rows, columns)
        parts = [a.new_empty(0)]
        size = block_rows(4 * a.shape[1])
        for at in range(0, rows.numel(), size):
            part = a.index_select(0, rows[at : at + size])
            parts.append(part.mul_(b.index_select(0, columns[at : at + size])).sum(1))
        return torch.cat(parts)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None, None]:
        first_order_only()
        a, b, rows, columns = ctx.saved_tensors
        to_a, to_b = torch.zeros_like(a), torch.zeros_like(b)
        size = block_rows(4 * a.shape[1])
        for at in range(0, rows.numel(), size):
            row, column = rows[at : at + size], columns[at : at + size]
            weight = gradient[at : at + size].unsqueeze(1)
            to_a.index_add_(0, row, b.index_select(0, column).mul_(weight))
            to_b.index_add_(0, column, a.index_select(0, row).mul_(weight))
        return to_a, to_b, None, None
