"""Miners: which pairs and triplets of a batch a loss sees."""

from lookalike.miners.angular import AngularMiner
from lookalike.miners.base import Miner
from lookalike.miners.distance_weighted import DistanceWeightedMiner
from lookalike.miners.easy_hard import BatchEasyHardMiner, BatchHardMiner
from lookalike.miners.everything import AllMiner, RandomMiner
from lookalike.miners.hard_aware import HDCMiner
from lookalike.miners.mined import Mined
from lookalike.miners.multi_similarity import MultiSimilarityMiner
from lookalike.miners.packaged import EmbeddingsAlreadyPackagedAsTriplets
from lookalike.miners.pair_margin import PairMarginMiner
from lookalike.miners.pml_base import BaseMiner
from lookalike.miners.rho import RhoMiner
from lookalike.miners.semi_hard import SemiHardMiner
from lookalike.miners.triplet_margin import TripletMarginMiner
from lookalike.miners.uniform_histogram import UniformHistogramMiner
from lookalike.registry import MINERS

__all__ = [
    "AllMiner",
    "AngularMiner",
    "BaseMiner",
    "BatchEasyHardMiner",
    "BatchHardMiner",
    "DistanceWeightedMiner",
    "EmbeddingsAlreadyPackagedAsTriplets",
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
