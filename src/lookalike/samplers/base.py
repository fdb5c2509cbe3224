"""The base of all batch samplers: seeded, and resumable inside an epoch."""

from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, fields
from itertools import islice
from typing import Any, TypeAlias, dataclass_transform

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import Sampler

from lookalike.errors import BadInput

__all__ = ["BatchSampler"]

Indices: TypeAlias = NDArray[np.int64]
Labels: TypeAlias = Tensor | Sequence[int] | NDArray[Any]


@dataclass_transform(eq_default=False)
@dataclass(eq=False, repr=False)
class BatchSampler(Sampler[list[int]]):
    """Batches of image indices for ``torch.utils.data.DataLoader(batch_sampler=...)``.

    A subclass implements :meth:`plan`: the batches of one epoch, drawn from a generator seeded by
    (seed, epoch). Its arguments are annotated fields, as in a dataclass. ``classes`` has the class
    index of each image, from 0. Each iteration is one epoch; :meth:`state_dict` keeps the position
    inside it. With several processes, each draws the same batches and takes its own rows of them.

    Args:
        labels: The class of each image.
        batch_size: Images per batch.
        seed: The batches depend on it, the labels and the epoch only.

    Raises:
        BadInput: There are fewer images than a batch holds.
    """

    labels: Labels
    batch_size: int
    _: KW_ONLY
    seed: int = 0

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        dataclass(eq=False, repr=False)(cls)

    def __post_init__(self) -> None:
        """Check the settings; a subclass calls it first in its own."""
        self.classes = as_labels(self.labels)
        if self.batch_size < 1:
            raise BadInput(f"sampler.batch_size = {self.batch_size} must be at least 1")
        if len(self.classes) < self.batch_size:
            raise BadInput(
                f"sampler.batch_size = {self.batch_size} is more than the {len(self.classes)} "
                "images to train on"
            )
        self.epoch = 0
        self.position = 0

    def __len__(self) -> int:
        return len(self.classes) // self.batch_size

    def __repr__(self) -> str:
        names = [setting.name for setting in fields(self) if "labels" not in setting.name]
        settings = [f"{name}={getattr(self, name)!r}" for name in names]
        data = f"{len(self.classes)} images, {len(np.unique(self.classes))} classes"
        return f"<{type(self).__name__}({', '.join(settings)}) of {data}>"

    def plan(self, random: np.random.Generator) -> Iterator[Indices]:
        """The batches of one epoch, in order."""
        raise NotImplementedError

    def batches_from(self, position: int) -> Iterator[Indices]:
        """The batches of this epoch from a position on; those before it are drawn again."""
        return islice(self.plan(np.random.default_rng([self.seed, self.epoch])), position, None)

    def __iter__(self) -> Iterator[list[int]]:
        for batch in self.batches_from(self.position):
            self.position += 1
            yield batch.tolist()
        self.epoch += 1
        self.position = 0

    def state_dict(self) -> dict[str, Any]:
        """The epoch, and how many of its batches have been drawn."""
        return {"epoch": self.epoch, "position": self.position}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a :meth:`state_dict`."""
        self.epoch = int(state["epoch"])
        self.position = int(state["position"])

    @property
    def uses_embeddings(self) -> bool:
        """Whether :meth:`observe` has an effect."""
        return type(self).observe is not BatchSampler.observe

    def observe(self, indices: Tensor, embeddings: Tensor) -> None:
        """Take the embeddings of a batch, for samplers that choose by them."""


class Deck:
    """Items drawn without replacement, like cards: shuffled anew when all have been drawn.

    Draws are small, so they are lists: slicing an array takes longer.
    """

    def __init__(
        self, items: Indices, random: np.random.Generator, remaining: list[int] | None = None
    ) -> None:
        self.items = items
        self.random = random
        self.remaining: list[int] = (
            random.permutation(items).tolist() if remaining is None else remaining
        )

    def draw(self, count: int) -> list[int]:
        """``count`` items, all different where there are that many."""
        drawn, self.remaining = self.remaining[:count], self.remaining[count:]
        if len(drawn) == count:
            return drawn
        shuffled = self.random.permutation(self.items).tolist()
        previous = set(drawn)
        drawn += [item for item in shuffled if item not in previous][: count - len(drawn)]
        added = set(drawn) - previous
        self.remaining = [item for item in shuffled if item not in added]
        if len(drawn) < count:  # fewer items than that: some are repeated
            drawn += self.random.choice(self.items, count - len(drawn)).tolist()
        return drawn


def as_labels(labels: Labels) -> Indices:
    """Labels as class indices 0..C-1 in their sorted order."""
    values = labels.cpu().numpy() if isinstance(labels, torch.Tensor) else np.asarray(labels)
    if values.ndim != 1:
        raise BadInput(f"a sampler needs one label per image, not an array of shape {values.shape}")
    return np.unique(values, return_inverse=True)[1].astype(np.int64)


def members_of(labels: Indices) -> list[Indices]:
    """The image indices of each class."""
    order = np.argsort(labels, kind="stable")
    return np.split(order, np.cumsum(np.bincount(labels))[:-1])


def check_groups(batch_size: int, per_class: int, class_count: int) -> None:
    """Refuse a batch that is not ``per_class`` images of each of several classes."""
    if per_class < 1 or batch_size % per_class:
        raise BadInput(f"a batch of {batch_size} is not a multiple of per_class {per_class}")
    if class_count < batch_size // per_class:
        raise BadInput(
            f"a batch of {batch_size} with {per_class} per class needs "
            f"{batch_size // per_class} classes, and there are {class_count}"
        )
