"""The multi-similarity miner: pairs that are hard compared with the other kind."""

from typing import Unpack

import torch

from lookalike.distances import CosineSimilarity
from lookalike.geometry import Relations
from lookalike.miners.base import Miner, MinerOptions
from lookalike.miners.mined import Pairs
from lookalike.registry import MINERS

__all__ = ["MultiSimilarityMiner"]


@MINERS.register("multi-similarity", paper="Wang et al., CVPR 2019")
class MultiSimilarityMiner(Miner):
    """Negatives nearer than the farthest positive, positives farther than the nearest negative.

    A negative is kept if ``s_an > min_P s - epsilon``, a positive if ``s_ap < max_N s + epsilon``.
    """

    default_distance = CosineSimilarity

    def __init__(self, epsilon: float = 0.1, **options: Unpack[MinerOptions]) -> None:
        super().__init__(**options)
        self.epsilon = epsilon

    def mine(self, relations: Relations) -> Pairs:
        """Both kinds of pairs, as truth values."""
        similarity = relations.similarity
        positive = relations.positives > 0
        negative = relations.negatives > 0
        farthest = similarity.where(positive, torch.inf).amin(1, keepdim=True)
        nearest = similarity.where(negative, -torch.inf).amax(1, keepdim=True)
        return Pairs(
            positive & (similarity - self.epsilon < nearest),
            negative & (similarity + self.epsilon > farthest),
        )
