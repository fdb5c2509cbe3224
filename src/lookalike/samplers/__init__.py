"""Batch samplers: which images meet in a batch."""

from lookalike.registry import SAMPLERS
from lookalike.samplers.base import BatchSampler
from lookalike.samplers.per_class import PerClassSampler
from lookalike.samplers.random import RandomSampler

__all__ = ["BatchSampler", "PerClassSampler", "RandomSampler", "create", "names"]

create = SAMPLERS.create
names = SAMPLERS.names
