"""Miners: which pairs and triplets of a batch a loss sees."""

from lookalike.miners.base import Miner
from lookalike.miners.easy_hard import BatchEasyHardMiner, BatchHardMiner
from lookalike.miners.mined import Mined
from lookalike.miners.multi_similarity import HDCMiner, MultiSimilarityMiner, PairMarginMiner
from lookalike.miners.rho import RhoMiner
from lookalike.miners.sampled import AllMiner, DistanceWeightedMiner, RandomMiner
from lookalike.miners.semi_hard import AngularMiner, SemiHardMiner, TripletMarginMiner
from lookalike.miners.uniform_histogram import UniformHistogramMiner
from lookalike.registry import MINERS

__all__ = [
    "AllMiner",
    "AngularMiner",
    "BatchEasyHardMiner",
    "BatchHardMiner",
    "DistanceWeightedMiner",
    "HDCMiner",
    "Mined",
    "Miner",
    "MultiSimilarityMiner",
    "PairMarginMiner",
    "RandomMiner",
    "RhoMiner",
    "SemiHardMiner",
    "TripletMarginMiner",
    "UniformHistogramMiner",
    "create",
    "names",
]

create = MINERS.create
names = MINERS.names
