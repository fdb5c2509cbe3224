"""Pairs on the wrong side of a margin."""

from typing import Unpack

from lookalike.miners.base import Miner, MinerOptions
from lookalike.registry import MINERS
from lookalike.relations import Relations

__all__ = ["PairMarginMiner"]


@MINERS.register("pair-margin")
class PairMarginMiner(Miner):
    """Positives farther than ``pos_margin`` and negatives nearer than ``neg_margin``.

    Args:
        pos_margin: In the unit of the distance.
        neg_margin: In the unit of the distance.
        options: Those of every miner, see ``MinerOptions``.
    """

    def __init__(
        self,
        pos_margin: float = 0.2,
        neg_margin: float = 0.8,
        **options: Unpack[MinerOptions],
    ) -> None:
        super().__init__(**options)
        self.pos_margin = pos_margin
        self.neg_margin = neg_margin

    def mine(self, relations: Relations) -> Relations:
        """Both kinds of pairs, as truth values."""
        similarity, level = relations.similarity, self.distance.level
        return relations.only_pairs(
            (relations.positives > 0) & (similarity < level(self.pos_margin)),
            (relations.negatives > 0) & (similarity > level(self.neg_margin)),
        )
