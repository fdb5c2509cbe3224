"""All pairs, and random triplets: the two miners that do not look at the embeddings."""

import torch

from lookalike.errors import BadInput
from lookalike.miners.base import Miner
from lookalike.ops.pairs import listed_pairs
from lookalike.ops.triplets import row_positions
from lookalike.registry import MINERS
from lookalike.relations import Relations

__all__ = ["AllMiner", "RandomMiner", "random_negatives"]


@MINERS.register("all")
class AllMiner(Miner):
    """Every positive and every negative pair."""

    def mine(self, relations: Relations) -> Relations:
        """Both masks."""
        return relations.only_pairs(relations.positives > 0, relations.negatives > 0)


@MINERS.register("random")
class RandomMiner(Miner):
    """Each anchor with random positives and random negatives.

    ``triplets_per_anchor`` triplets are drawn with replacement for each anchor that has both.

    Args:
        triplets_per_anchor: How many triplets each anchor gets.
    """

    triplets_per_anchor: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.triplets_per_anchor < 1:
            raise BadInput(
                f"triplets_per_anchor is {self.triplets_per_anchor}; it must be at least 1"
            )

    def mine(self, relations: Relations) -> Relations:
        """Anchors in order, each with its random pairs."""
        height, width = relations.similarity.shape
        times = self.triplets_per_anchor
        anchor = torch.arange(height, device=relations.similarity.device)
        anchor = anchor.repeat_interleave(times)
        drawn = []
        keep = torch.ones_like(anchor, dtype=torch.bool)
        for weights in (relations.positives, relations.negatives):
            sums = weights.cumsum(1)
            total = sums[:, -1].repeat_interleave(times)
            level = torch.rand_like(total) * total
            place = torch.searchsorted(sums, level.view(height, times), right=True).view(-1)
            drawn.append(place.clamp_max(width - 1))
            keep &= total > 0
        return relations.only_triplets(anchor, drawn[0], drawn[1], keep)


def random_negatives(relations: Relations, weights: torch.Tensor) -> Relations:
    """For each positive pair one negative of its anchor, drawn with these weights."""
    pairs = listed_pairs(relations.positives)
    rows, last = pairs.rows, weights.shape[1] - 1
    sums = weights.cumsum(1)
    total = sums[:, -1][rows]
    place = row_positions(sums, rows, torch.rand_like(total) * total, right=True)
    keep = (pairs.weights > 0) & (total > 0)
    return relations.only_triplets(rows, pairs.columns(weights), place.clamp_max(last), keep)
