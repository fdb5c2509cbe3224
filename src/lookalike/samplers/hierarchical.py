"""Batches whose classes share a super-class, so that their negatives are hard."""

from collections.abc import Iterator

import numpy as np

from lookalike.errors import BadInput
from lookalike.registry import SAMPLERS
from lookalike.samplers.base import BatchSampler, Indices, Labels, as_labels, members_of
from lookalike.samplers.per_class import Deck

__all__ = ["HierarchicalSampler"]


@SAMPLERS.register("hierarchical", paper="Fehérvári et al., 2019")
class HierarchicalSampler(BatchSampler):
    """Some super-classes per batch, several of their classes, ``per_class`` images each.

    Args:
        per_class: Images per class.
        super_classes: Super-classes per batch.
        super_labels: The super-class of each image; a class belongs to one super-class.
    """

    def __init__(
        self,
        labels: Labels,
        batch_size: int,
        per_class: int = 4,
        super_classes: int = 2,
        super_labels: Labels | None = None,
        *,
        seed: int = 0,
    ) -> None:
        super().__init__(labels, batch_size, seed=seed)
        if super_labels is None:
            raise BadInput("the hierarchical sampler needs super_labels, and the data have none")
        groups = as_labels(super_labels)
        if len(groups) != len(self.labels):
            raise BadInput(f"{len(groups)} super_labels do not fit {len(self.labels)} labels")
        if min(per_class, super_classes) < 1 or batch_size % (per_class * super_classes):
            raise BadInput(
                f"a batch of {batch_size} is not a multiple of {super_classes} super-classes "
                f"with {per_class} images per class"
            )
        self.per_class = per_class
        self.super_classes = super_classes
        self.members = members_of(self.labels)
        group_of_class = groups[[images[0] for images in self.members]]
        if not np.array_equal(group_of_class[self.labels], groups):
            raise BadInput("a class belongs to more than one super-class")
        self.classes_of = members_of(group_of_class)
        wanted = batch_size // per_class // super_classes
        large = [classes for classes in self.classes_of if len(classes) >= wanted]
        if len(large) < super_classes:
            raise BadInput(
                f"a batch needs {super_classes} super-classes of at least {wanted} classes, and "
                f"there are {len(large)}"
            )
        self.classes_of = large

    def plan(self, random: np.random.Generator) -> Iterator[Indices]:
        """Draw super-classes, then classes of each, then images of each."""
        groups = Deck(np.arange(len(self.classes_of)), random)
        class_decks = [Deck(classes, random) for classes in self.classes_of]
        image_decks = [Deck(images, random) for images in self.members]
        wanted = self.batch_size // self.per_class // self.super_classes
        for _ in range(len(self)):
            chosen = [
                number
                for group in groups.draw(self.super_classes)
                for number in class_decks[group].draw(wanted)
            ]
            images = [image_decks[number].draw(self.per_class) for number in chosen]
            yield np.concatenate(images)
