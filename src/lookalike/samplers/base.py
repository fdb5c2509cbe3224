"""What every batch sampler is: seeded, sharded by rank, and resumable inside an epoch."""

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias, TypedDict

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import Sampler

from lookalike.errors import BadInput
from lookalike.registry import show_options

__all__ = ["BatchSampler", "Indices", "Labels", "SamplerOptions", "as_labels", "members_of"]

Indices: TypeAlias = NDArray[np.int64]
Labels: TypeAlias = Tensor | Sequence[int] | NDArray[Any]


class SamplerOptions(TypedDict, total=False):
    """What every sampler takes beside its own arguments."""

    seed: int
    rank: int
    world_size: int


class BatchSampler(Sampler[list[int]]):
    """Batches of item numbers for ``torch.utils.data.DataLoader(batch_sampler=...)``.

    A subclass writes :meth:`plan`: the global batches of one epoch, drawn from a generator that is
    seeded by (seed, epoch), so that every rank plans the same and takes its own shard. Iterating
    moves on to the next epoch by itself; :meth:`state_dict` keeps the place inside an epoch.
    """

    def __init__(
        self,
        labels: Labels,
        batch_size: int,
        *,
        seed: int = 0,
        rank: int = 0,
        world_size: int = 1,
    ) -> None:
        self.labels = as_labels(labels)
        if batch_size < 1:
            raise BadInput(f"sampler.batch_size = {batch_size} must be at least 1")
        if batch_size % world_size:
            raise BadInput(f"batch_size {batch_size} cannot be shared by {world_size} processes")
        if len(self.labels) < batch_size:
            raise BadInput(
                f"sampler.batch_size = {batch_size} is more than the {len(self.labels)} images "
                "to train on"
            )
        self.batch_size = batch_size
        self.seed = seed
        self.rank = rank
        self.world_size = world_size
        self.epoch = 0
        self.position = 0

    def __init_subclass__(cls) -> None:
        """Show the common options in the signature."""
        super().__init_subclass__()
        show_options(cls)

    def __len__(self) -> int:
        return len(self.labels) // self.batch_size

    def plan(self, random: np.random.Generator) -> Iterator[Indices]:
        """The global batches of one epoch, one after the other."""
        raise NotImplementedError

    def __iter__(self) -> Iterator[list[int]]:
        random = np.random.default_rng([self.seed, self.epoch])
        done = self.position
        for number, batch in enumerate(self.plan(random)):
            if number >= done:
                self.position = number + 1
                yield batch[self.rank :: self.world_size].tolist()
        self.epoch += 1
        self.position = 0

    def state_dict(self) -> dict[str, Any]:
        """The place: which epoch, and how many of its batches have been given out."""
        return {"epoch": self.epoch, "position": self.position}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from the place that :meth:`state_dict` gave."""
        self.epoch = int(state["epoch"])
        self.position = int(state["position"])

    @property
    def looks_at_embeddings(self) -> bool:
        """Whether :meth:`observe` does anything."""
        return type(self).observe is not BatchSampler.observe

    def observe(self, indices: Tensor, embeddings: Tensor) -> None:
        """Take note of the embeddings of a batch; only samplers that look at them care."""


def as_labels(labels: Labels) -> Indices:
    """Labels as class numbers 0..C-1 in their sorted order."""
    values = labels.cpu().numpy() if isinstance(labels, torch.Tensor) else np.asarray(labels)
    if values.ndim != 1:
        raise BadInput(f"a sampler wants one label an image, not an array of shape {values.shape}")
    return np.unique(values, return_inverse=True)[1].astype(np.int64)


def members_of(labels: Indices) -> list[Indices]:
    """The item numbers of each class."""
    order = np.argsort(labels, kind="stable")
    return np.split(order, np.cumsum(np.bincount(labels))[:-1])
