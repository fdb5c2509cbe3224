"""Semi-hard mining: negatives a little farther than the positive."""

from typing import Unpack

import torch

from lookalike.miners.base import Miner, MinerOptions
from lookalike.miners.mined import Listed
from lookalike.ops.pairs import at_places, listed_pairs, picked
from lookalike.ops.triplets import row_positions
from lookalike.registry import MINERS
from lookalike.relations import Relations

__all__ = ["SemiHardMiner"]


@MINERS.register("semi-hard", paper="Schroff et al., CVPR 2015")
class SemiHardMiner(Miner):
    """For each positive pair the nearest negative beyond the positive, if within the margin.

    ``d_ap < d_an < d_ap + margin``; where no negative is so, the hardest (nearest) one. Each
    anchor's negatives are sorted once and searched, so the cost is N^2 log N.
    """

    def __init__(self, margin: float = 0.2, **options: Unpack[MinerOptions]) -> None:
        super().__init__(**options)
        self.margin = margin

    def mine(self, relations: Relations) -> Listed:
        """One triplet for each positive pair of an anchor that has a negative."""
        away = (-relations.similarity).where(relations.negatives > 0, torch.inf)
        ranked, order = away.sort(1)
        pairs = listed_pairs(relations.positives)
        rows, places, weight = pairs
        near = -at_places(relations.similarity, places)
        place = row_positions(ranked, rows, near, right=True)
        last = ranked.shape[1] - 1
        beyond = picked(ranked, rows, place.clamp_max(last))
        semi_hard = (beyond < near + self.margin) & (place <= last)
        negative = picked(order, rows, torch.where(semi_hard, place, 0))
        keep = (weight > 0) & ranked[:, 0].isfinite()[rows]
        height, width = ranked.shape
        return Listed(rows, pairs.columns(ranked), negative, keep, (height, width))
