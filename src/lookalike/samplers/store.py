"""Samplers that choose a batch by the embeddings of its images."""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lookalike.errors import BadInput
from lookalike.samplers.base import Indices, Labels
from lookalike.samplers.per_class import PerClassSampler

__all__ = ["StoreSampler", "rows_of"]


class StoreSampler(PerClassSampler):
    """A sampler with a store of unit-length embeddings of the whole training set.

    The store is filled once (:meth:`fill`), and each batch's embeddings replace the old ones
    (:meth:`observe`). It stays on the device of the embeddings: what a batch shows is written there
    without waiting, and only the pool of the next batch comes to the host. Batch k of epoch e draws
    from a generator seeded by (seed, e, k), so that a run can resume anywhere.

    Args:
        pool: How many images a batch is chosen from.
        seed: The batches depend on it, the embeddings and the epoch.
    """

    def __init__(
        self,
        labels: Labels,
        batch_size: int,
        per_class: int = 4,
        pool: int = 512,
        *,
        seed: int = 0,
    ) -> None:
        super().__init__(labels, batch_size, per_class, seed=seed)
        if pool < batch_size:
            raise BadInput(f"sampler.pool = {pool} is smaller than the batch of {batch_size}")
        self.pool = min(pool, len(self.labels))
        self.store: Tensor | None = None

    @abstractmethod
    def choose(self, random: np.random.Generator, store: Tensor) -> Indices:
        """One batch, chosen by the embeddings in ``store``, of which ``rows_of`` reads some."""

    def fill(self, embeddings: Tensor) -> None:
        """Store the embeddings of all training images, in their order."""
        if len(embeddings) != len(self.labels):
            raise BadInput(f"{len(embeddings)} embeddings do not fit {len(self.labels)} labels")
        self.store = unit_rows(embeddings)

    def observe(self, indices: Tensor, embeddings: Tensor) -> None:
        """Replace the stored embeddings of a batch."""
        if self.store is None:
            return
        rows = unit_rows(embeddings)
        self.store = self.store.to(rows.device)
        if rows.device.type == "cpu":  # of an image that comes twice, the last one counts
            self.store.numpy()[indices.cpu().numpy()] = rows.numpy()
        else:
            self.store.index_copy_(0, indices.to(rows.device, non_blocking=True), rows)

    def __iter__(self) -> Iterator[list[int]]:
        if self.store is None:
            raise BadInput(f"{type(self).__name__} has no embeddings yet: call fill() first")
        while self.position < len(self):
            random = np.random.default_rng([self.seed, self.epoch, self.position])
            self.position += 1
            yield self.choose(random, self.store).tolist()
        self.epoch += 1
        self.position = 0

    def state_dict(self) -> dict[str, Any]:
        """The place inside the epoch, and the store."""
        store = None if self.store is None else self.store.cpu().clone()
        return super().state_dict() | {"store": store}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a :meth:`state_dict`."""
        super().load_state_dict(state)
        store = state["store"]
        self.store = None if store is None else store.clone()

    def complete(self, random: np.random.Generator, picks: Sequence[int]) -> Indices:
        """Each pick with ``per_class - 1`` others of its class, all different where possible."""
        taken = set(picks)
        batch: list[int] = []
        for pick in picks:
            others = random.permutation(self.members[self.labels[pick]]).tolist()
            free = [image for image in others if image not in taken]
            mates = (free or [o for o in others if o != pick] or [pick])[: self.per_class - 1]
            while len(mates) < self.per_class - 1:  # the class is too small: some come twice
                mates.append(int(random.choice(others)))
            taken.update(mates)
            batch += [pick, *mates]
        return np.asarray(batch, dtype=np.int64)


def unit_rows(embeddings: Tensor) -> Tensor:
    """Rows of length one, without gradient."""
    return torch.nn.functional.normalize(embeddings.detach().float(), dim=1)


def rows_of(store: Tensor, images: Indices) -> NDArray[np.float32]:
    """The stored embeddings of some images, on the host."""
    chosen = torch.from_numpy(images).to(store.device, non_blocking=True)
    rows: NDArray[np.float32] = store.index_select(0, chosen).cpu().numpy()
    return rows
