"""Batches of images drawn independently of their classes."""

from collections.abc import Iterator

import numpy as np

from lookalike.registry import SAMPLERS
from lookalike.samplers.base import BatchSampler, Indices

__all__ = ["RandomSampler"]


@SAMPLERS.register("random", paper="the usual way")
class RandomSampler(BatchSampler):
    """Every image once per epoch, in random order."""

    def plan(self, random: np.random.Generator) -> Iterator[Indices]:
        """Cut one permutation of all images into batches; an incomplete last one is dropped."""
        order = random.permutation(len(self.labels))
        yield from np.split(order[: len(self) * self.batch_size], len(self))
