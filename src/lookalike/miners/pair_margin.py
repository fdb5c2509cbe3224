"""Pairs on the wrong side of a margin."""

from lookalike.miners.base import Miner
from lookalike.registry import MINERS
from lookalike.relations import Relations

__all__ = ["PairMarginMiner"]


@MINERS.register("pair-margin")
class PairMarginMiner(Miner):
    """Positives farther than ``pos_margin`` and negatives nearer than ``neg_margin``.

    Args:
        pos_margin: In the unit of the distance.
        neg_margin: In the unit of the distance.
    """

    pos_margin: float = 0.2
    neg_margin: float = 0.8

    def mine(self, relations: Relations) -> Relations:
        """Both kinds of pairs, as truth values."""
        similarity, level = relations.similarity, self.distance.level
        return relations.only_pairs(
            (relations.positives > 0) & (similarity < level(self.pos_margin)),
            (relations.negatives > 0) & (similarity > level(self.neg_margin)),
        )
