"""``pytorch_metric_learning.samplers``; ``HierarchicalSampler`` takes PML's arguments here."""

from lookalike.samplers import (
    FixedSetOfTriplets,
    MPerClassSampler,
    TuplesToWeightsSampler,
)
from lookalike.samplers import SuperClassTupleSampler as HierarchicalSampler

__all__ = [
    "FixedSetOfTriplets",
    "HierarchicalSampler",
    "MPerClassSampler",
    "TuplesToWeightsSampler",
]
