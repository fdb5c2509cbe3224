"""The angular loss."""

import math

import torch
from torch import Tensor
from torch.nn.functional import softplus

from lookalike.losses.base import PairLoss, Terms
from lookalike.losses.kernels import Kernel
from lookalike.losses.kernels.angular import angular_kernel
from lookalike.ops.pairs import at_places, listed_pairs
from lookalike.ops.sync import can_sync
from lookalike.registry import LOSSES
from lookalike.relations import Relations

__all__ = ["AngularLoss"]


@LOSSES.register("angular", paper="Wang et al., ICCV 2017")
class AngularLoss(PairLoss):
    """Bounds the angle at the negative of each triplet.

    ``log(1 + sum_n e^(f_apn))`` with ``f = 4 tan^2(alpha) (x_a + x_p).x_n - 2 (1 + tan^2 alpha)
    x_a.x_p``, mean over positive pairs, of unit vectors (PML leaves the negatives as they come,
    and takes all negatives even when a miner found some). As ``e^(x_a.x_n + x_p.x_n)`` is a
    product, the sum over n is a matrix product: nothing of size N^3.

    Args:
        alpha: The bound on the angle, in degrees.
    """

    between_candidates = True
    needs = "unit vectors (cosine or l2)"

    alpha: float = 40

    def terms(self, relations: Relations) -> Terms:
        """The formula, one value per positive pair."""
        tan2 = _squared_tangent(self.alpha)
        cosine, between = self.cosines(relations)
        pairs = listed_pairs(relations.positives)
        # e^(4 tan^2 (s - 1)), so that no exponent is large
        of_anchor = (4 * tan2 * (cosine - 1)).exp()
        of_candidate = (4 * tan2 * (between - 1)).exp()
        summed = at_places((of_anchor * relations.negatives) @ of_candidate.T, pairs.places)
        exponents = log_of_sum(summed) + 8 * tan2
        exponents = exponents - 2 * (1 + tan2) * at_places(cosine, pairs.places)
        counts = relations.counts_of(pairs)
        return Terms(softplus(exponents), pairs.weights, counts, places=pairs)

    def cosines(self, relations: Relations) -> tuple[Tensor, Tensor]:
        """Of anchors and candidates, and of candidates to one another."""
        cosine, between = relations.similarity, relations.between_candidates()
        if self.distance.is_inverted:
            return cosine, between
        squared = self.distance.squared_euclidean
        return 1 - squared(cosine) / 2, 1 - squared(between) / 2

    def kernel(self, relations: Relations) -> Kernel | None:
        """Only the products that positive pairs need, where they are few and can be listed."""
        few = self.distance.is_inverted and can_sync(relations.similarity)
        return angular_kernel if few else None


def log_of_sum(summed: Tensor) -> Tensor:
    """The logarithm; far below zero, without gradient, where there is nothing to sum."""
    some = summed > torch.finfo(summed.dtype).tiny
    return torch.where(some, summed.where(some, 1).log(), -1e30)


def _squared_tangent(degrees: float | Tensor) -> float | Tensor:
    if isinstance(degrees, Tensor):
        return degrees.deg2rad().tan().square()
    return math.tan(math.radians(degrees)) ** 2
