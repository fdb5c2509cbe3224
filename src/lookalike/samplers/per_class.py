"""SPC-n: batches of several images from each of several classes."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from lookalike.errors import BadInput
from lookalike.registry import SAMPLERS
from lookalike.samplers.base import BatchSampler, Indices, Labels, members_of

__all__ = ["Deck", "PerClassSampler"]


class Deck:
    """Items drawn without replacement, and shuffled anew when all have been drawn.

    Draws are small, so they are lists: slicing an array takes longer.
    """

    def __init__(
        self, items: Indices, random: np.random.Generator, rest: list[int] | None = None
    ) -> None:
        self.items = items
        self.random = random
        self.rest: list[int] = random.permutation(items).tolist() if rest is None else rest

    def draw(self, count: int) -> list[int]:
        """``count`` items, all different where there are that many."""
        drawn, self.rest = self.rest[:count], self.rest[count:]
        if len(drawn) == count:
            return drawn
        shuffled = self.random.permutation(self.items).tolist()
        former = set(drawn)
        added = [item for item in shuffled if item not in former][: count - len(drawn)]
        taken = set(added)
        self.rest = [item for item in shuffled if item not in taken]
        drawn += added
        if len(drawn) < count:  # fewer items than asked for: some are repeated
            drawn += self.random.choice(self.items, count - len(drawn)).tolist()
        return drawn


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

    def __init__(
        self,
        labels: Labels,
        batch_size: int,
        per_class: int = 4,
        fewer_classes: bool = False,
        *,
        seed: int = 0,
    ) -> None:
        super().__init__(labels, batch_size, seed=seed)
        self.members = members_of(self.labels)
        if per_class < 1 or batch_size % per_class:
            raise BadInput(f"a batch of {batch_size} is not a multiple of per_class {per_class}")
        if fewer_classes:
            possible = range(1, min(len(self.members), batch_size // per_class) + 1)
            per_class = batch_size // max(n for n in possible if batch_size % n == 0)
        if len(self.members) < batch_size // per_class:
            raise BadInput(
                f"a batch of {batch_size} with {per_class} per class needs "
                f"{batch_size // per_class} classes, and there are {len(self.members)}"
            )
        self.per_class = per_class
        self.fewer_classes = fewer_classes
        self.unseen: list[int] | None = None

    def plan(self, random: np.random.Generator) -> Iterator[Indices]:
        """Draw classes, then images of each class."""
        classes = Deck(np.arange(len(self.members)), random, self.unseen)
        decks: dict[int, Deck] = {}
        for _ in range(len(self)):
            batch: list[int] = []
            for chosen in classes.draw(self.batch_size // self.per_class):
                if chosen not in decks:
                    decks[chosen] = Deck(self.members[chosen], random)
                batch += decks[chosen].draw(self.per_class)
            yield np.asarray(batch)
        self.unseen = classes.rest

    def state_dict(self) -> dict[str, Any]:
        """The place inside the epoch, and the classes left over by the last epoch."""
        return super().state_dict() | {"unseen": self.unseen}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a :meth:`state_dict`."""
        super().load_state_dict(state)
        self.unseen = state["unseen"]
