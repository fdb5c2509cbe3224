"""Batch samplers: which images form a batch.

>>> sampler = create("spc", [0, 0, 1, 1, 2, 2], batch_size=4, per_class=2)
>>> [len(batch) for batch in sampler]
[4]
"""

from lookalike.registry import SAMPLERS
from lookalike.samplers.base import BatchSampler
from lookalike.samplers.by_embedding import (
    CoresetSampler,
    DistanceMatchingSampler,
    FrechetMatchingSampler,
    GreedyCoresetSampler,
    StoreSampler,
)
from lookalike.samplers.by_label import (
    ForcedPairSampler,
    HierarchicalSampler,
    PerClassSampler,
    RandomSampler,
)

__all__ = [
    "BatchSampler",
    "CoresetSampler",
    "DistanceMatchingSampler",
    "ForcedPairSampler",
    "FrechetMatchingSampler",
    "GreedyCoresetSampler",
    "HierarchicalSampler",
    "PerClassSampler",
    "RandomSampler",
    "StoreSampler",
    "create",
    "names",
]

create = SAMPLERS.create
names = SAMPLERS.names
