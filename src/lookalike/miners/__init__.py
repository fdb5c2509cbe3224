"""Miners: which pairs and triplets of a batch a loss sees."""

from lookalike.miners.base import Miner
from lookalike.miners.mined import Listed, Mined, Pairs, Ranges
from lookalike.miners.multi_similarity import MultiSimilarityMiner
from lookalike.miners.semi_hard import SemiHardMiner
from lookalike.miners.triplet_margin import TripletMarginMiner
from lookalike.registry import MINERS

__all__ = [
    "Listed",
    "Mined",
    "Miner",
    "MultiSimilarityMiner",
    "Pairs",
    "Ranges",
    "SemiHardMiner",
    "TripletMarginMiner",
    "create",
    "names",
]

create = MINERS.create
names = MINERS.names
