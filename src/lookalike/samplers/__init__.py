"""Batch samplers: which images meet in a batch."""

from lookalike.registry import SAMPLERS
from lookalike.samplers.base import BatchSampler
from lookalike.samplers.forced_pair import ForcedPairSampler
from lookalike.samplers.hierarchical import HierarchicalSampler
from lookalike.samplers.per_class import PerClassSampler
from lookalike.samplers.random import RandomSampler

__all__ = [
    "BatchSampler",
    "ForcedPairSampler",
    "HierarchicalSampler",
    "PerClassSampler",
    "RandomSampler",
    "create",
    "names",
]

create = SAMPLERS.create
names = SAMPLERS.names
