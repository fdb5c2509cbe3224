"""Semi-hard mining: negatives a little farther than the positive."""

from typing import Unpack

import torch
from torch import Tensor

from lookalike.geometry import Relations, compact
from lookalike.miners.base import Miner, MinerOptions
from lookalike.miners.mined import Listed
from lookalike.registry import MINERS

__all__ = ["SemiHardMiner", "every_slot"]


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
        positive, weight = compact(relations.positives)
        near = -relations.similarity.gather(1, positive)
        place = torch.searchsorted(ranked, near, right=True)
        last = ranked.shape[1] - 1
        beyond = ranked.gather(1, place.clamp_max(last))
        semi_hard = (beyond < near + self.margin) & (place <= last)
        negative = order.gather(1, torch.where(semi_hard, place, 0))
        keep = (weight > 0) & ranked[:, :1].isfinite()
        return every_slot(positive, negative, keep, relations)


def every_slot(positive: Tensor, negative: Tensor, keep: Tensor, relations: Relations) -> Listed:
    """A list with one place for each slot [anchors, K] of a positive and a negative."""
    rows, columns = relations.similarity.shape
    anchor = torch.arange(rows, device=positive.device).unsqueeze(1).expand_as(positive)
    return Listed(
        anchor.reshape(-1),
        positive.reshape(-1),
        negative.reshape(-1),
        keep.reshape(-1),
        (rows, columns),
    )
