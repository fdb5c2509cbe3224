"""Batch samplers: which images form a batch.

>>> sampler = create("spc", [0, 0, 1, 1, 2, 2], batch_size=4, per_class=2)
>>> [len(batch) for batch in sampler]
[4]
"""

from lookalike.registry import SAMPLERS
from lookalike.samplers.base import BatchSampler
from lookalike.samplers.coreset import CoresetSampler, GreedyCoresetSampler
from lookalike.samplers.fixed_triplets import FixedSetOfTriplets
from lookalike.samplers.forced_pair import ForcedPairSampler
from lookalike.samplers.hierarchical import HierarchicalSampler
from lookalike.samplers.m_per_class import MPerClassSampler
from lookalike.samplers.matching import DistanceMatchingSampler, FrechetMatchingSampler
from lookalike.samplers.per_class import PerClassSampler
from lookalike.samplers.random import RandomSampler
from lookalike.samplers.store import StoreSampler
from lookalike.samplers.super_class_tuples import SuperClassTupleSampler
from lookalike.samplers.tuple_weights import TuplesToWeightsSampler

__all__ = [
    "BatchSampler",
    "CoresetSampler",
    "DistanceMatchingSampler",
    "FixedSetOfTriplets",
    "ForcedPairSampler",
    "FrechetMatchingSampler",
    "GreedyCoresetSampler",
    "HierarchicalSampler",
    "MPerClassSampler",
    "PerClassSampler",
    "RandomSampler",
    "StoreSampler",
    "SuperClassTupleSampler",
    "TuplesToWeightsSampler",
    "create",
    "names",
]

create = SAMPLERS.create
names = SAMPLERS.names
