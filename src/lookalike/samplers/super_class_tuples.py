"""Batches for every tuple of super-classes, as PML's hierarchical sampler makes them."""

from collections.abc import Iterator
from itertools import combinations
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import Sampler

from lookalike.errors import BadInput
from lookalike.samplers.base import Indices, members_of
from lookalike.samplers.drawing import draw_some, generator

__all__ = ["SuperClassTupleSampler"]


class SuperClassTupleSampler(Sampler[list[int]]):
    """PML's ``HierarchicalSampler``: so many batches for each tuple of super-classes.

    A batch has equally many images of each super-class of its tuple, so its negatives are hard. It
    may be smaller where classes do not fill it. The batch sampler ``hierarchical`` draws the
    super-classes at random instead of all tuples of them.

    Args:
        labels: [images, levels], a column of classes and one of super-classes.
        batch_size: Images per batch.
        samples_per_class: Images per class, or ``all`` that it has.
        batches_per_super_tuple: Batches for each tuple, in an epoch.
        super_classes_per_batch: Super-classes in a tuple.
        inner_label: The column of classes.
        outer_label: The column of super-classes.
        seed: None: drawn from ``np.random``, so that its seed decides.

    Raises:
        BadInput: The batch is not a multiple of super-classes and images per class.
    """

    def __init__(
        self,
        labels: Tensor | NDArray[Any],
        batch_size: int,
        samples_per_class: int | Literal["all"],
        batches_per_super_tuple: int = 4,
        super_classes_per_batch: int = 2,
        inner_label: int = 0,
        outer_label: int = 1,
        seed: int | None = None,
    ) -> None:
        table = np.asarray(labels.cpu() if isinstance(labels, Tensor) else labels)
        if table.ndim != 2:
            raise BadInput(f"labels have shape {table.shape}; give a row of levels per image")
        per_class = 1 if samples_per_class == "all" else samples_per_class
        if per_class < 1 or batch_size % (super_classes_per_batch * per_class):
            raise BadInput(
                f"a batch of {batch_size} is not a multiple of {super_classes_per_batch} "
                f"super-classes with {samples_per_class} images per class"
            )
        self.batch_size = batch_size
        self.samples_per_class = samples_per_class
        self.batches_per_super_tuple = batches_per_super_tuple
        self.share = batch_size // super_classes_per_batch
        outer = np.unique(table[:, outer_label], return_inverse=True)[1]
        inner = np.unique(table[:, inner_label], return_inverse=True)[1]
        self.classes_of = [_by_class(images, inner) for images in members_of(outer)]
        self.tuples = list(combinations(range(len(self.classes_of)), super_classes_per_batch))
        self.seed = seed

    def __len__(self) -> int:
        return len(self.tuples) * self.batches_per_super_tuple

    def __iter__(self) -> Iterator[list[int]]:
        random = generator(self.seed)
        for number in random.permutation(len(self)):
            groups = self.tuples[number % len(self.tuples)]
            batch = [image for group in groups for image in self._part(group, random)]
            yield random.permutation(batch).tolist()

    def _part(self, group: int, random: np.random.Generator) -> list[int]:
        """Images of one super-class, whole classes at a time."""
        part: list[int] = []
        for number in random.permutation(len(self.classes_of[group])):
            images = self.classes_of[group][number]
            wanted = len(images) if self.samples_per_class == "all" else self.samples_per_class
            if len(part) + wanted <= self.share:
                part += draw_some(images, wanted, random).tolist()
        return part


def _by_class(images: Indices, classes: Indices) -> list[Indices]:
    """The images of each class that occurs among these."""
    numbers = np.unique(classes[images], return_inverse=True)[1]
    return [images[members] for members in members_of(numbers)]
