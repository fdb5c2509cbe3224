"""The multi-similarity miner: pairs that are hard compared with the other kind."""

import torch
from torch import Tensor

from lookalike.distances import CosineSimilarity
from lookalike.miners.base import Miner
from lookalike.ops.hinge import step
from lookalike.registry import MINERS
from lookalike.relations import Relations, in_row_blocks

__all__ = ["MultiSimilarityMiner"]

_FAR = 1e30


@MINERS.register("multi-similarity", paper="Wang et al., CVPR 2019")
class MultiSimilarityMiner(Miner):
    """Negatives nearer than the farthest positive, positives farther than the nearest negative.

    A negative is kept if ``s_an > min_P s - epsilon``, a positive if ``s_ap < max_N s + epsilon``.

    Args:
        epsilon: The slack of both comparisons.
    """

    default_distance = CosineSimilarity

    epsilon: float = 0.1

    def mine(self, relations: Relations) -> Relations:
        """Both kinds of pairs."""
        return relations.only_pairs(*in_row_blocks(relations, self._kept))

    def _kept(self, relations: Relations) -> tuple[Tensor, Tensor]:
        """1 at the positives that are kept, and at the negatives."""
        similarity = relations.similarity
        # numbers instead of truth values: several times faster on the CPU
        positive = relations.positives.ceil()
        negative = relations.negatives.ceil()
        farthest = torch.add(similarity, 1 - positive, alpha=_FAR).amin(1, keepdim=True)
        nearest = torch.sub(similarity, 1 - negative, alpha=_FAR).amax(1, keepdim=True)
        return (
            step(nearest + self.epsilon - similarity).mul_(positive),
            step(similarity - farthest + self.epsilon).mul_(negative),
        )
