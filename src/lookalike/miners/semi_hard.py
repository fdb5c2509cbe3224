"""Semi-hard mining: negatives a little farther than the positive."""

from typing import Literal

import torch

from lookalike.miners.base import Miner
from lookalike.ops.pairs import at_places, listed_pairs, picked
from lookalike.ops.triplets import row_positions
from lookalike.registry import MINERS
from lookalike.relations import Relations

__all__ = ["SemiHardMiner"]


@MINERS.register("semi-hard", paper="Schroff et al., CVPR 2015")
class SemiHardMiner(Miner):
    """For each positive pair the nearest negative beyond the positive, if within the margin.

    ``argmin d_an`` over the negatives with ``d_ap < d_an < d_ap + margin``. Each anchor's negatives
    are sorted once and searched, so the cost is N^2 log N.

    Args:
        margin: How far beyond the positive a negative may lie. By default 0.2 with
            ``fallback="hardest"``, and no bound with ``fallback="none"``.
        fallback: What a positive pair without such a negative gets: ``"hardest"`` the nearest
            negative of all, as in the code of FaceNet; ``"none"`` no triplet. ``"none"`` without a
            margin is ``argmax s_an`` over ``s_an < s_ap`` and nothing else (Psomas, 2020).
    """

    margin: float | None = None
    fallback: Literal["hardest", "none"] = "hardest"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.margin is None:
            self.margin = 0.2 if self.fallback == "hardest" else torch.inf

    def mine(self, relations: Relations) -> Relations:
        """One triplet for each positive pair that has a fitting negative, or a fallback."""
        assert self.margin is not None
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
        found = semi_hard if self.fallback == "none" else ranked[:, 0].isfinite()[rows]
        return relations.only_triplets(rows, pairs.columns(ranked), negative, (weight > 0) & found)
