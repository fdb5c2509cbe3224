"""All pairs, random triplets, and negatives drawn by their distance."""

import torch
from torch import Tensor

from lookalike.errors import BadInput
from lookalike.miners.base import Miner
from lookalike.ops.blocks import in_blocks
from lookalike.registry import MINERS
from lookalike.relations import Relations, Triplets

__all__ = ["AllMiner", "DistanceWeightedMiner", "RandomMiner"]


@MINERS.register("all")
class AllMiner(Miner):
    """Every positive and every negative pair."""

    def mine(self, relations: Relations) -> Relations:
        """Both masks."""
        return relations.only(relations.positives > 0, relations.negatives > 0)


@MINERS.register("random")
class RandomMiner(Miner):
    """Each anchor with random positives and random negatives.

    ``triplets_per_anchor`` triplets are drawn with replacement for each anchor that has both.

    Args:
        triplets_per_anchor: How many triplets each anchor gets.
    """

    triplets_per_anchor: int = 1

    def __post_init__(self) -> None:
        if self.triplets_per_anchor < 1:
            raise BadInput(
                f"triplets_per_anchor is {self.triplets_per_anchor}; it must be at least 1"
            )

    def mine(self, relations: Relations) -> Relations:
        """Anchors in order, each with its random pairs."""
        times = self.triplets_per_anchor
        anchor = torch.arange(len(relations.similarity), device=relations.similarity.device)
        positive, has_positive = _drawn(relations.positives, times)
        negative, has_negative = _drawn(relations.negatives, times)
        keep = (has_positive & has_negative).repeat_interleave(times).unsqueeze(1)
        anchor = anchor.repeat_interleave(times)
        return relations.only_triplets(
            Triplets(anchor, positive.flatten(), negative.view(-1, 1), keep)
        )


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
        allowed = (squared < max(self.nonzero_loss_cutoff, 0) ** 2) & (relations.negatives > 0)
        # a distance of 0 (an image and itself) is not less likely than never: log 0 has no number
        squared = squared.clamp(max(self.cutoff**2, torch.finfo(squared.dtype).tiny), 4 - 1e-6)
        log_weight = (2 - dimension) / 2 * squared.log()
        log_weight = log_weight - (dimension - 3) / 2 * (1 - squared / 4).log()
        # relative to the likeliest allowed one, in float32's range; none is lost, only scaled
        log_weight = log_weight.where(allowed, -1e30)
        log_weight = log_weight - log_weight.amax(1, keepdim=True)
        return log_weight.clamp_min(-80).exp() * allowed * relations.negatives

    def mine(self, relations: Relations) -> Relations:
        """One negative for each positive pair, drawn by its weight."""
        anchor, positive = relations.listed_pairs
        sums = self.weights(relations).cumsum(1)
        level = torch.rand(len(anchor), dtype=sums.dtype, device=sums.device)

        def draw(sums: Tensor, anchor: Tensor, level: Tensor) -> Tensor:
            rows = sums.index_select(0, anchor)
            return torch.searchsorted(rows, (level * rows[:, -1]).unsqueeze(1), right=True)

        negative = in_blocks(draw, sums, anchor, level, columns=sums.shape[1])
        keep = (relations.at_pairs(relations.positives) > 0) & (sums[:, -1] > 0)[anchor]
        negative = negative.clamp_max(sums.shape[1] - 1)
        return relations.only_triplets(Triplets(anchor, positive, negative, keep.unsqueeze(1)))


def _drawn(weights: Tensor, times: int) -> tuple[Tensor, Tensor]:
    """[anchors, times] candidates drawn by weight, and [anchors] whether there is any."""
    sums = weights.cumsum(1)
    total = sums[:, -1:]
    level = torch.rand(len(weights), times, dtype=sums.dtype, device=sums.device) * total
    candidate = torch.searchsorted(sums, level, right=True).clamp_max(weights.shape[1] - 1)
    return candidate, total.squeeze(1) > 0
