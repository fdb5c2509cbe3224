"""GC and D2: batches of images that are far from one another."""

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from lookalike.registry import SAMPLERS
from lookalike.samplers.base import Indices
from lookalike.samplers.store import StoreSampler, rows_of

__all__ = ["CoresetSampler", "GreedyCoresetSampler"]


@SAMPLERS.register("d2", paper="Arthur and Vassilvitskii, SODA 2007")
class CoresetSampler(StoreSampler):
    """D2: each pick is drawn with a probability proportional to its squared distance to the others.

    The softer form of the greedy coreset; the seeding of k-means++ used to choose a batch.
    """

    def choose(self, random: np.random.Generator, store: Tensor) -> Indices:
        """``batch_size / per_class`` picks from a random pool, each completed with its class."""
        pool = random.choice(len(store), self.pool, replace=False)
        rows = rows_of(store, pool)
        squared = np.clip(2 - 2 * (rows @ rows.T), 0, None)
        chosen = [int(random.integers(len(pool)))]
        nearest = squared[chosen[0]].copy()
        while len(chosen) < self.batch_size // self.per_class:
            nearest[chosen] = -1  # never the same twice, even where all embeddings are equal
            chosen.append(self.next_pick(random, nearest))
            nearest = np.minimum(nearest, squared[chosen[-1]])
        return self.complete(random, pool[chosen].tolist())

    def next_pick(self, random: np.random.Generator, nearest: NDArray[np.float32]) -> int:
        """The next pick, given each candidate's squared distance to those chosen (they: -1)."""
        chances = np.where(nearest < 0, 0, nearest + 1e-12).astype(np.float64)
        return int(random.choice(len(chances), p=chances / chances.sum()))


@SAMPLERS.register("gc", paper="Roth et al., ICML 2020; Sener and Savarese, ICLR 2018")
class GreedyCoresetSampler(CoresetSampler):
    """GC: each pick is the image whose smallest distance to those already chosen is largest."""

    def next_pick(self, random: np.random.Generator, nearest: NDArray[np.float32]) -> int:  # noqa: ARG002
        """The farthest candidate."""
        return int(nearest.argmax())
