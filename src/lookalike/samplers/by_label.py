"""Samplers that read labels only: random, SPC-n, SPC-R and hierarchical."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from lookalike.errors import BadInput
from lookalike.registry import SAMPLERS
from lookalike.samplers.base import (
    BatchSampler,
    Deck,
    Indices,
    Labels,
    as_labels,
    check_groups,
    members_of,
)

__all__ = ["ForcedPairSampler", "HierarchicalSampler", "PerClassSampler", "RandomSampler"]


@SAMPLERS.register("random", paper="the usual way")
class RandomSampler(BatchSampler):
    """Every image once per epoch, in random order."""

    def plan(self, random: np.random.Generator) -> Iterator[Indices]:
        """Cut one permutation of all images into batches; an incomplete last one is dropped."""
        order = random.permutation(len(self.classes))
        yield from np.split(order[: len(self) * self.batch_size], len(self))


@SAMPLERS.register("spc", paper="Roth et al., ICML 2020")
class PerClassSampler(BatchSampler):
    """SPC-n: ``batch_size / per_class`` classes with ``per_class`` images each.

    Every class is drawn before any is drawn twice, across epochs too; inside an epoch the same
    holds for the images of a class. A class with fewer than ``per_class`` images repeats some.

    Args:
        per_class: Images per class.
        fewer_classes: With too few classes for a batch, take more images of each class (the number
            of classes still divides the batch) instead of refusing.
    """

    per_class: int = 4
    fewer_classes: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        self.members = members_of(self.classes)
        size, number = self.batch_size, len(self.members)
        check_groups(size, self.per_class, size if self.fewer_classes else number)
        if self.fewer_classes:
            counts = range(1, min(number, size // self.per_class) + 1)
            self.per_class = size // max(n for n in counts if size % n == 0)
        self.unseen: list[int] | None = None

    def plan(self, random: np.random.Generator) -> Iterator[Indices]:
        """Draw classes, then images of each class."""
        classes = Deck(np.arange(len(self.members)), random, self.unseen)
        images: dict[int, Deck] = {}
        for _ in range(len(self)):
            batch: list[int] = []
            for label in classes.draw(self.batch_size // self.per_class):
                if label not in images:
                    images[label] = Deck(self.members[label], random)
                batch += images[label].draw(self.per_class)
            yield np.asarray(batch)
        self.unseen = classes.remaining

    def state_dict(self) -> dict[str, Any]:
        """The position inside the epoch, and the classes left over by the last epoch."""
        return super().state_dict() | {"unseen": self.unseen}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a :meth:`state_dict`."""
        super().load_state_dict(state)
        self.unseen = state["unseen"]


@SAMPLERS.register("spc-r", paper="Roth et al., ICML 2020")
class ForcedPairSampler(BatchSampler):
    """SPC-R: each image from a class drawn at random; the last shares a class with another.

    The classes of the first ``batch_size - 1`` images are drawn uniformly with replacement, so a
    class may occur several times; its images differ while there are enough of them. The class of
    the last image is that of one of the others.
    """

    def plan(self, random: np.random.Generator) -> Iterator[Indices]:
        """``batch_size - 1`` images from uniformly drawn classes, then a partner for one."""
        if self.batch_size < 2:
            raise BadInput("sampler 'spc-r' makes a pair, so batch_size must be at least 2")
        members = members_of(self.classes)
        for _ in range(len(self)):
            classes = random.integers(len(members), size=self.batch_size - 1)
            images = np.empty_like(classes)
            for label in np.unique(classes):
                positions = np.flatnonzero(classes == label)
                images[positions] = np.resize(random.permutation(members[label]), len(positions))
            yield np.append(images, self._partner(random, images, members))

    def _partner(
        self, random: np.random.Generator, images: Indices, members: list[Indices]
    ) -> np.int64:
        """Another image of the class of one of ``images``, where any of them has one."""
        for image in random.permutation(images):
            others = members[self.classes[image]]
            others = others[~np.isin(others, images)]
            if len(others):
                return np.int64(random.choice(others))
        return np.int64(random.choice(images))


@SAMPLERS.register("hierarchical", paper="Fehérvári et al., 2019")
class HierarchicalSampler(BatchSampler):
    """Some super-classes per batch, several of their classes, ``per_class`` images each.

    The classes of a batch share few super-classes, so their images are hard negatives.

    Args:
        per_class: Images per class.
        super_classes: Super-classes per batch.
        super_labels: The super-class of each image; a class belongs to one super-class.
    """

    per_class: int = 4
    super_classes: int = 2
    super_labels: Labels | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.super_labels is None:
            raise BadInput("the hierarchical sampler needs super_labels, and the data have none")
        supers = as_labels(self.super_labels)
        if len(supers) != len(self.classes):
            raise BadInput(f"{len(supers)} super_labels do not fit {len(self.classes)} labels")
        size, number, each = self.batch_size, self.super_classes, self.per_class
        if min(each, number) < 1 or size % (each * number):
            raise BadInput(
                f"a batch of {size} is not a multiple of {number} super-classes "
                f"with {each} images per class"
            )
        self.members = members_of(self.classes)
        super_of_class = supers[[images[0] for images in self.members]]
        if not np.array_equal(super_of_class[self.classes], supers):
            raise BadInput("a class belongs to more than one super-class")
        self.classes_each = size // each // number
        self.classes_of = [c for c in members_of(super_of_class) if len(c) >= self.classes_each]
        if len(self.classes_of) < number:
            raise BadInput(
                f"a batch needs {number} super-classes of at least {self.classes_each} "
                f"classes, and there are {len(self.classes_of)}"
            )

    def plan(self, random: np.random.Generator) -> Iterator[Indices]:
        """Draw super-classes, then classes of each, then images of each."""
        super_classes = Deck(np.arange(len(self.classes_of)), random)
        classes = [Deck(labels, random) for labels in self.classes_of]
        images = [Deck(members, random) for members in self.members]
        for _ in range(len(self)):
            labels = [
                label
                for number in super_classes.draw(self.super_classes)
                for label in classes[number].draw(self.classes_each)
            ]
            yield np.concatenate([images[label].draw(self.per_class) for label in labels])
