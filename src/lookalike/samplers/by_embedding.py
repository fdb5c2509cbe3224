"""Samplers that choose a batch by stored embeddings: GC and D2, DDM and FRD."""

from abc import abstractmethod
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lookalike.errors import BadInput
from lookalike.ops.rows import normalize_rows
from lookalike.registry import SAMPLERS
from lookalike.samplers.base import BatchSampler, Deck, Indices, check_groups, members_of

__all__ = [
    "CoresetSampler",
    "DistanceMatchingSampler",
    "FrechetMatchingSampler",
    "GreedyCoresetSampler",
    "StoreSampler",
]

Floats = NDArray[np.floating[Any]]


class StoreSampler(BatchSampler):
    """A sampler with a store of unit-length embeddings of the whole training set.

    The store is filled once (:meth:`fill`), and each batch's embeddings replace the old ones
    (:meth:`observe`). It stays on the device of the embeddings: what a batch shows is written there
    without waiting, and only the pool of the next batch comes to the host. Batch k of epoch e draws
    from a generator seeded by (seed, e, k), so that a run can resume anywhere.

    Args:
        per_class: Images per class.
        pool: How many images a batch is chosen from.
        seed: The batches depend on it, the embeddings and the epoch.
    """

    per_class: int = 4
    pool: int = 512

    def __post_init__(self) -> None:
        super().__post_init__()
        self.members = members_of(self.classes)
        check_groups(self.batch_size, self.per_class, len(self.members))
        if self.pool < self.batch_size:
            raise BadInput(
                f"sampler.pool = {self.pool} is smaller than the batch of {self.batch_size}"
            )
        self.pool = min(self.pool, len(self.classes))
        self.store: Tensor | None = None

    @abstractmethod
    def choose(self, random: np.random.Generator) -> Indices:
        """One batch, chosen by what :meth:`embeddings_of` reads of the store."""

    def batches_from(self, position: int) -> Iterator[Indices]:
        """The batches of this epoch from a position on, each by the store as it is by then."""
        if self.store is None:
            raise BadInput(f"{type(self).__name__} has no embeddings yet: call fill() first")
        for number in range(position, len(self)):
            yield self.choose(np.random.default_rng([self.seed, self.epoch, number]))

    def fill(self, embeddings: Tensor) -> None:
        """Store the embeddings of all training images, in their order."""
        if len(embeddings) != len(self.classes):
            raise BadInput(f"{len(embeddings)} embeddings do not fit {len(self.classes)} labels")
        self.store = normalize_rows(embeddings.detach().float())

    def observe(self, indices: Tensor, embeddings: Tensor) -> None:
        """Replace the stored embeddings of a batch."""
        if self.store is None:
            return
        rows = normalize_rows(embeddings.detach().float())
        self.store = self.store.to(rows.device)
        if rows.device.type == "cpu":  # of an image that comes twice, the last one counts
            self.store.numpy()[indices.cpu().numpy()] = rows.numpy()
        else:
            self.store.index_copy_(0, indices.to(rows.device, non_blocking=True), rows)

    def embeddings_of(self, images: Indices) -> Floats:
        """The stored embeddings of some images, on the host."""
        assert self.store is not None
        indices = torch.from_numpy(images).to(self.store.device, non_blocking=True)
        return self.store.index_select(0, indices).cpu().numpy()

    def state_dict(self) -> dict[str, Any]:
        """The position inside the epoch, and the store."""
        store = None if self.store is None else self.store.cpu().clone()
        return super().state_dict() | {"store": store}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a :meth:`state_dict`."""
        super().load_state_dict(state)
        self.store = None if state["store"] is None else state["store"].clone()


@SAMPLERS.register("d2", paper="Arthur and Vassilvitskii, SODA 2007")
class CoresetSampler(StoreSampler):
    """D2: each pick is drawn with a probability proportional to its squared distance to the others.

    The softer form of the greedy coreset; the seeding of k-means++ used to choose a batch.
    ``batch_size / per_class`` images are picked from a random pool, each completed with its class.
    """

    def choose(self, random: np.random.Generator) -> Indices:
        """Images far from one another, with others of their classes."""

        def by_squared_distance(nearest: Floats) -> int:
            weights = np.where(nearest < 0, 0, nearest + 1e-12).astype(np.float64)
            return int(random.choice(len(weights), p=weights / weights.sum()))

        return _distant_images(self, random, by_squared_distance)


@SAMPLERS.register("gc", paper="Roth et al., ICML 2020; Sener and Savarese, ICLR 2018")
class GreedyCoresetSampler(StoreSampler):
    """GC: each pick is the image whose smallest distance to those already picked is largest.

    ``batch_size / per_class`` images are picked from a random pool, each completed with its class.
    """

    def choose(self, random: np.random.Generator) -> Indices:
        """Images far from one another, with others of their classes."""
        return _distant_images(self, random, lambda nearest: int(nearest.argmax()))


def _distant_images(
    sampler: StoreSampler, random: np.random.Generator, next_pick: Callable[[Floats], int]
) -> Indices:
    """Picks from a random pool, each with others of its class.

    ``next_pick`` reads each image's squared distance to the nearest pick (-1 for a pick itself).
    """
    pool = random.choice(len(sampler.classes), sampler.pool, replace=False)
    rows = sampler.embeddings_of(pool)
    squared = np.clip(2 - 2 * (rows @ rows.T), 0, None)
    picks = [int(random.integers(len(pool)))]
    nearest = squared[picks[0]].copy()
    while len(picks) < sampler.batch_size // sampler.per_class:
        nearest[picks] = -1  # never the same twice, even where all embeddings are equal
        picks.append(next_pick(nearest))
        nearest = np.minimum(nearest, squared[picks[-1]])
    return _with_their_classes(sampler, random, pool[picks].tolist())


def _with_their_classes(
    sampler: StoreSampler, random: np.random.Generator, picks: list[int]
) -> Indices:
    """Each pick with ``per_class - 1`` others of its class, all different where possible."""
    used = set(picks)
    batch: list[int] = []
    for pick in picks:
        members = random.permutation(sampler.members[sampler.classes[pick]]).tolist()
        unused = [image for image in members if image not in used]
        others = unused or [image for image in members if image != pick] or [pick]
        others = others[: sampler.per_class - 1]
        while len(others) < sampler.per_class - 1:  # the class is too small: some come twice
            others.append(int(random.choice(members)))
        used.update(others)
        batch += [pick, *others]
    return np.asarray(batch, dtype=np.int64)


@SAMPLERS.register("ddm", paper="Roth et al., ICML 2020")
class DistanceMatchingSampler(StoreSampler):
    """DDM: the batch whose pairwise distances are distributed most like the pool's.

    An SPC pool and several SPC batches of it are drawn; the batch is taken whose histogram of
    distances has the least Wasserstein distance to the pool's.

    Args:
        bins: Bins of the histograms, on the pool's range.
        moments: Weigh the Wasserstein distance by 75 and add the differences of mean and standard
            deviation, as the public code does.
        candidates: Candidate batches.
    """

    bins: int = 50
    moments: bool = False
    candidates: int = 10

    def __post_init__(self) -> None:
        super().__post_init__()
        self.spc_pool = SpcPool(self, self.candidates)

    def choose(self, random: np.random.Generator) -> Indices:
        """The candidate batch with the least dissimilarity to the pool."""
        return self.spc_pool.closest_batch(self, random, self.dissimilarity)

    def dissimilarity(self, rows: Floats, batches: Indices) -> Floats:
        """Wasserstein distances of ``batches`` of row indices to the pool ``rows``.

        That is the area between the two cumulative histograms.
        """
        distances = np.sqrt(np.clip(2 - 2 * (rows @ rows.T), 0, None))
        upper = np.triu_indices(len(rows), 1)
        of_pool = distances[upper]
        low, high = of_pool.min(), of_pool.max()
        width = max(float(high - low) / self.bins, 1e-12)
        binned = np.clip(((distances - low) / width).astype(np.int64), 0, self.bins - 1)
        target = self._cumulative(binned[upper])
        pairs = np.triu_indices(batches.shape[1], 1)
        values = np.empty(len(batches))
        for number, batch in enumerate(batches):
            block = np.ix_(batch, batch)
            histogram = self._cumulative(binned[block][pairs])
            values[number] = width * np.abs(histogram - target).sum()
            if self.moments:
                of_batch = distances[block][pairs]
                gaps = abs(of_batch.mean() - of_pool.mean()) + abs(of_batch.std() - of_pool.std())
                values[number] = 75 * values[number] + gaps
        return values

    def _cumulative(self, binned: Indices) -> Floats:
        """The cumulative histogram of bin numbers."""
        return np.cumsum(np.bincount(binned, minlength=self.bins)) / max(len(binned), 1)


@SAMPLERS.register("frd", paper="Roth et al., ICML 2020; Heusel et al., NeurIPS 2017")
class FrechetMatchingSampler(StoreSampler):
    """FRD: the batch whose mean and covariance are most like the pool's (Fréchet distance).

    ``|mu - mu'|^2 + tr(S + S' - 2 (S S')^(1/2))``. With S = A'A of the centred batch, the last
    trace is the sum of the roots of the eigenvalues of ``(A B')(A B')'``, a batch x batch matrix.

    Args:
        candidates: Candidate batches.
    """

    candidates: int = 10

    def __post_init__(self) -> None:
        super().__post_init__()
        self.spc_pool = SpcPool(self, self.candidates)

    def choose(self, random: np.random.Generator) -> Indices:
        """The candidate batch with the least dissimilarity to the pool."""
        return self.spc_pool.closest_batch(self, random, self.dissimilarity)

    def dissimilarity(self, rows: Floats, batches: Indices) -> Floats:
        """Fréchet distances of ``batches`` of row indices to the pool ``rows``."""
        mean = rows.mean(0)
        pool = (rows - mean) / np.sqrt(max(len(rows) - 1, 1))
        in_batch = rows[batches]
        means = in_batch.mean(1, keepdims=True)
        centred = (in_batch - means) / np.sqrt(max(in_batch.shape[1] - 1, 1))
        cross = centred @ pool.T
        eigenvalues = np.linalg.eigvalsh(cross @ cross.transpose(0, 2, 1))
        trace_of_root = np.sqrt(np.clip(eigenvalues, 0, None)).sum(1)
        of_means = ((means[:, 0] - mean) ** 2).sum(1)
        of_pool, of_batches = float((pool * pool).sum()), (centred * centred).sum((1, 2))
        return np.asarray(of_means + of_pool + of_batches - 2 * trace_of_root)


class SpcPool:
    """The pool of DDM and FRD: groups of ``per_class`` images of one class, drawn anew each time.

    Where there are fewer classes than ``pool / per_class``, classes come into the pool several
    times with other images; ``pool`` is smaller only where the images do not suffice, and the
    sampler's setting is corrected to that.
    """

    def __init__(self, sampler: StoreSampler, candidates: int) -> None:
        if candidates < 1:
            raise BadInput(f"sampler.candidates = {candidates} must be at least 1")
        self.candidates = candidates
        self.groups_per_class = np.maximum(np.bincount(sampler.classes) // sampler.per_class, 1)
        self.group_count = min(sampler.pool // sampler.per_class, int(self.groups_per_class.sum()))
        sampler.pool = self.group_count * sampler.per_class

    def closest_batch(
        self,
        sampler: StoreSampler,
        random: np.random.Generator,
        dissimilarity: Callable[[Floats, Indices], Floats],
    ) -> Indices:
        """Of several SPC batches of a pool the one least dissimilar to it."""
        classes = self._draw_classes(random)
        decks = {label: Deck(sampler.members[label], random) for label in np.unique(classes)}
        pool = np.asarray([decks[label].draw(sampler.per_class) for label in classes])
        size = sampler.batch_size // sampler.per_class
        groups = np.stack(
            [self._draw_groups(random, classes, size) for _ in range(self.candidates)]
        )
        rows_of_group = np.arange(pool.size).reshape(pool.shape)
        batches = rows_of_group[groups].reshape(self.candidates, -1)
        values = dissimilarity(sampler.embeddings_of(pool.ravel()), batches)
        batch: Indices = pool.ravel()[batches[int(values.argmin())]]
        return batch

    def _draw_classes(self, random: np.random.Generator) -> Indices:
        """The class of each group of the pool; each class once before any comes again."""
        rounds: list[Indices] = []
        while sum(map(len, rounds)) < self.group_count:
            rounds.append(random.permutation(np.flatnonzero(self.groups_per_class > len(rounds))))
        return np.concatenate(rounds)[: self.group_count]

    @staticmethod
    def _draw_groups(random: np.random.Generator, classes: Indices, count: int) -> Indices:
        """The groups of one candidate batch, all of different classes."""
        order = random.permutation(len(classes))
        first_of_class = np.unique(classes[order], return_index=True)[1]
        return order[np.sort(first_of_class)[:count]]
