"""DDM and FRD: of several candidate batches, the one most similar to a larger pool."""

from abc import abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from lookalike.errors import BadInput
from lookalike.registry import SAMPLERS
from lookalike.samplers.base import Indices, Labels
from lookalike.samplers.store import StoreSampler, rows_of

__all__ = ["DistanceMatchingSampler", "FrechetMatchingSampler"]

Floats = NDArray[np.floating[Any]]


class MatchingSampler(StoreSampler):
    """Draws an SPC pool and ``candidates`` SPC batches from it; takes the most similar batch.

    Args:
        candidates: Candidate batches.
    """

    def __init__(
        self,
        labels: Labels,
        batch_size: int,
        per_class: int = 4,
        pool: int = 512,
        candidates: int = 10,
        *,
        seed: int = 0,
    ) -> None:
        super().__init__(labels, batch_size, per_class, pool, seed=seed)
        if candidates < 1:
            raise BadInput(f"sampler.candidates = {candidates} must be at least 1")
        self.candidates = candidates
        self.groups = min(self.pool // per_class, len(self.members))

    @abstractmethod
    def dissimilarity(self, rows: Floats, batches: Indices) -> Floats:
        """The dissimilarity of each of the ``batches`` of row indices to the pool ``rows``."""

    def choose(self, random: np.random.Generator, store: Tensor) -> Indices:
        """The candidate batch with the least dissimilarity to the pool."""
        classes = random.permutation(len(self.members))[: self.groups]
        heads = [int(random.choice(self.members[number])) for number in classes]
        pool = self.complete(random, heads).reshape(self.groups, self.per_class)
        wanted = self.batch_size // self.per_class
        groups = np.stack(
            [random.permutation(self.groups)[:wanted] for _ in range(self.candidates)]
        )
        numbers = np.arange(pool.size).reshape(pool.shape)
        batches = numbers[groups].reshape(self.candidates, -1)
        best = int(self.dissimilarity(rows_of(store, pool.ravel()), batches).argmin())
        chosen: Indices = pool.ravel()[batches[best]]
        return chosen


@SAMPLERS.register("ddm", paper="Roth et al., ICML 2020")
class DistanceMatchingSampler(MatchingSampler):
    """DDM: the batch whose pairwise distances are distributed most like the pool's.

    That is the least Wasserstein distance between the histograms of distances.

    Args:
        bins: Bins of the histograms, on the pool's range.
        moments: Weigh the Wasserstein distance by 75 and add the differences of mean and standard
            deviation, as the public code does.
    """

    def __init__(
        self,
        labels: Labels,
        batch_size: int,
        bins: int = 50,
        moments: bool = False,
        *,
        per_class: int = 4,
        pool: int = 512,
        candidates: int = 10,
        seed: int = 0,
    ) -> None:
        super().__init__(labels, batch_size, per_class, pool, candidates, seed=seed)
        self.bins = bins
        self.moments = moments

    def dissimilarity(self, rows: Floats, batches: Indices) -> Floats:
        """Wasserstein distances: the area between the two cumulative histograms."""
        distances = np.sqrt(np.clip(2 - 2 * (rows @ rows.T), 0, None))
        upper = np.triu_indices(len(rows), 1)
        low, high = distances[upper].min(), distances[upper].max()
        width = max(float(high - low) / self.bins, 1e-12)
        binned = np.clip(((distances - low) / width).astype(np.int64), 0, self.bins - 1)
        target = self._spread(binned[upper])
        inside = np.triu_indices(batches.shape[1], 1)
        found = np.empty(len(batches))
        for number, batch in enumerate(batches):
            pairs = np.ix_(batch, batch)
            spread = self._spread(binned[pairs][inside])
            found[number] = width * np.abs(spread - target).sum()
            if self.moments:
                own, whole = distances[pairs][inside], distances[upper]
                gaps = abs(own.mean() - whole.mean()) + abs(own.std() - whole.std())
                found[number] = 75 * found[number] + gaps
        return found

    def _spread(self, binned: Indices) -> Floats:
        """The cumulative histogram of bin numbers."""
        return np.cumsum(np.bincount(binned, minlength=self.bins)) / max(len(binned), 1)


@SAMPLERS.register("frd", paper="Roth et al., ICML 2020; Heusel et al., NeurIPS 2017")
class FrechetMatchingSampler(MatchingSampler):
    """FRD: the batch whose mean and covariance are most like the pool's (Fréchet distance).

    ``|mu - mu'|^2 + tr(S + S' - 2 (S S')^(1/2))``. With S = A'A of the centred batch, the last
    trace is the sum of the roots of the eigenvalues of ``(A B')(A B')'``, a batch x batch matrix.
    """

    def dissimilarity(self, rows: Floats, batches: Indices) -> Floats:
        """Fréchet distances between each batch and the pool."""
        mean = rows.mean(0)
        pool = (rows - mean) / np.sqrt(max(len(rows) - 1, 1))
        spread = float((pool * pool).sum())
        own = rows[batches]
        means = own.mean(1, keepdims=True)
        centred = (own - means) / np.sqrt(max(own.shape[1] - 1, 1))
        crossed = centred @ pool.T
        roots = np.linalg.eigvalsh(crossed @ crossed.transpose(0, 2, 1))
        shared = np.sqrt(np.clip(roots, 0, None)).sum(1)
        apart = ((means[:, 0] - mean) ** 2).sum(1)
        return np.asarray(apart + spread + (centred * centred).sum((1, 2)) - 2 * shared)
