"""SPC-n: batches of several images from each of several classes."""

from collections.abc import Iterator
from typing import Any, Unpack

import numpy as np

from lookalike.errors import BadInput
from lookalike.registry import SAMPLERS
from lookalike.samplers.base import BatchSampler, Indices, Labels, SamplerOptions, members_of

__all__ = ["Deck", "PerClassSampler"]


class Deck:
    """Cards dealt without replacement: nothing comes twice before everything came once.

    Hands are small, so they are lists: a slice of an array costs more than it deals.
    """

    def __init__(
        self, cards: Indices, random: np.random.Generator, rest: list[int] | None = None
    ) -> None:
        self.cards = cards
        self.random = random
        self.rest: list[int] = random.permutation(cards).tolist() if rest is None else rest

    def deal(self, count: int) -> list[int]:
        """``count`` cards, all different where there are that many, and the rest drawn anew."""
        hand, self.rest = self.rest[:count], self.rest[count:]
        if len(hand) == count:
            return hand
        fresh = self.random.permutation(self.cards).tolist()
        held = set(hand)
        fill = [card for card in fresh if card not in held][: count - len(hand)]
        dealt = set(fill)
        self.rest = [card for card in fresh if card not in dealt]
        hand += fill
        if len(hand) < count:  # fewer cards than asked for: some must come twice
            hand += self.random.choice(self.cards, count - len(hand)).tolist()
        return hand


@SAMPLERS.register("spc", paper="Roth et al., ICML 2020")
class PerClassSampler(BatchSampler):
    """SPC-n: ``batch_size / per_class`` classes with ``per_class`` images each.

    Every class is seen before any is seen twice, across epochs too; inside an epoch the same holds
    for the images of a class. A class with fewer than ``per_class`` images gives some twice.

    Too few classes for a batch are refused. With ``fewer_classes`` a batch of the same size then
    has more images of each: of as many classes as divide it, at most all there are.
    """

    def __init__(
        self,
        labels: Labels,
        batch_size: int,
        per_class: int = 4,
        fewer_classes: bool = False,
        **options: Unpack[SamplerOptions],
    ) -> None:
        super().__init__(labels, batch_size, **options)
        self.members = members_of(self.labels)
        if per_class < 1 or batch_size % per_class:
            raise BadInput(f"a batch of {batch_size} is not a multiple of per_class {per_class}")
        if fewer_classes:
            possible = range(1, min(len(self.members), batch_size // per_class) + 1)
            per_class = batch_size // max(n for n in possible if batch_size % n == 0)
        if len(self.members) < batch_size // per_class:
            raise BadInput(
                f"a batch of {batch_size} with {per_class} a class needs {batch_size // per_class}"
                f" classes, and there are {len(self.members)}"
            )
        self.per_class = per_class
        self.unseen: list[int] | None = None

    def plan(self, random: np.random.Generator) -> Iterator[Indices]:
        """Deal classes, then images of each class."""
        classes = Deck(np.arange(len(self.members)), random, self.unseen)
        decks: dict[int, Deck] = {}
        for _ in range(len(self)):
            batch: list[int] = []
            for chosen in classes.deal(self.batch_size // self.per_class):
                if chosen not in decks:
                    decks[chosen] = Deck(self.members[chosen], random)
                batch += decks[chosen].deal(self.per_class)
            yield np.asarray(batch)
        self.unseen = classes.rest

    def state_dict(self) -> dict[str, Any]:
        """The place, and the classes that the last epoch left for this one."""
        return super().state_dict() | {"unseen": self.unseen}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from the place that :meth:`state_dict` gave."""
        super().load_state_dict(state)
        self.unseen = state["unseen"]
