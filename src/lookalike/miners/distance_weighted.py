"""Distance-weighted sampling: negatives evenly spread over the distances."""

import torch
from torch import Tensor

from lookalike.miners.base import Miner
from lookalike.miners.everything import random_negatives
from lookalike.ops.hinge import below
from lookalike.registry import MINERS
from lookalike.relations import Relations

__all__ = ["DistanceWeightedMiner"]


@MINERS.register("distance-weighted", paper="Wu et al., ICCV 2017")
class DistanceWeightedMiner(Miner):
    """Draws negatives by the inverse density of their distance on the sphere.

    ``log q^-1 = (2 - D) log d - (D - 3)/2 log(1 - d^2/4)`` for distances d of unit vectors in D
    dimensions, not nearer than ``cutoff`` and none at ``nonzero_loss_cutoff`` or beyond. One
    negative for each positive pair (PML draws as many, but pairs them with random positives).

    Args:
        cutoff: Nearer negatives are weighed as if at this distance.
        nonzero_loss_cutoff: Negatives at this distance or beyond are not drawn.
    """

    needs = "unit vectors (cosine or l2)"

    cutoff: float = 0.5
    nonzero_loss_cutoff: float = 1.4

    def weights(self, relations: Relations) -> Tensor:
        """How likely each candidate is drawn, up to a factor per anchor."""
        assert relations.embeddings is not None
        dimension = relations.embeddings.shape[1]
        squared = self.distance.squared_euclidean(relations.similarity)
        allowed = below(squared, max(self.nonzero_loss_cutoff, 0) ** 2).mul_(relations.negatives)
        # a distance of 0 (an image and itself) is not less likely than never: log 0 has no number
        squared.clamp_(max(self.cutoff**2, torch.finfo(squared.dtype).tiny), 4 - 1e-6)
        chance = squared.log().mul_((2.0 - dimension) / 2)
        chance.sub_(squared.mul_(-0.25).log1p_().mul_((dimension - 3) / 2))
        # relative to the likeliest allowed one, in float32's range; none is lost, only scaled
        chance.add_(allowed.ceil().sub_(1).mul_(1e30))
        chance.sub_(chance.amax(1, keepdim=True)).clamp_min_(-80)
        return chance.exp_().mul_(allowed)

    def mine(self, relations: Relations) -> Relations:
        """One negative for each positive pair, drawn by its weight."""
        return random_negatives(relations, self.weights(relations))
