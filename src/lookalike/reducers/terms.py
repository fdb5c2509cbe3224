"""What a loss gives a reducer: one value per element, and where each element stands."""

from typing import Literal, NamedTuple, TypeAlias

import torch
from torch import Tensor

from lookalike.ops.pairs import PairList

__all__ = ["Batch", "Kind", "Listed", "Terms"]

Kind: TypeAlias = Literal["already_reduced", "element", "pos_pair", "neg_pair", "triplet"]
"""PML's names for what a value belongs to."""


class Listed(NamedTuple):
    """Elements one by one: the anchor of each, and the other images of a pair or triplet."""

    anchors: Tensor
    others: tuple[Tensor, ...] = ()


class Terms(NamedTuple):
    """One value per element: pair, triplet, anchor, image or proxy; a reducer makes one number."""

    values: Tensor
    """One value per element; a scalar is the loss itself, and no reducer changes it."""
    weights: Tensor | None = None
    """How much each value counts in the sum; None is 1."""
    counts: Tensor | None = None
    """How often each value counts in the number of elements; None is its weight."""
    name: str = "loss"
    """What ``MultipleReducers`` calls these: ``loss``, ``pos_loss``, ``neg_loss``, ..."""
    places: PairList | Listed | None = None
    """Where the elements stand. None: [anchors], or the pairs [anchors, candidates]. Pairs: [pairs]
    are pairs, [pairs, candidates] triplets."""
    divisor: Tensor | None = None
    """What the loss itself divides the sum by; None: the number of elements."""

    @property
    def kind(self) -> Kind:
        """What a value belongs to, as PML calls it (a quadruplet counts as a triplet)."""
        if self.values.ndim == 0:
            return "already_reduced"
        images = self.values.ndim
        if isinstance(self.places, Listed):
            images = 1 + len(self.places.others)
        elif self.places is not None:
            images += 1
        if images > 2:
            return "triplet"
        if images == 1:
            return "element"
        return "neg_pair" if self.name.startswith("neg") else "pos_pair"

    def anchors(self) -> Tensor:
        """The anchor of each row of the values."""
        if self.places is None:
            return torch.arange(self.values.shape[0], device=self.values.device)
        return self.places.anchors if isinstance(self.places, Listed) else self.places.rows

    def along_values(self, of_rows: Tensor) -> Tensor:
        """One number per row of the values, shaped so that the values can be multiplied by it."""
        return of_rows.view(-1, *[1] * (self.values.ndim - 1))

    def total(self) -> Tensor:
        """The sum of the values by their weights."""
        return (self.values if self.weights is None else self.values * self.weights).sum()

    def number(self) -> Tensor:
        """How many elements count; never 0, so that it can divide."""
        counted = self.weights if self.counts is None else self.counts
        if counted is None:
            return self.values.new_full((), max(1, self.values.numel()))
        return counted.sum().clamp_min(torch.finfo(counted.dtype).tiny)

    def only(self, kept: Tensor) -> "Terms":
        """The elements where ``kept`` is 1."""
        weights = kept if self.weights is None else kept * self.weights
        counts = None if self.counts is None else kept * self.counts
        return self._replace(weights=weights, counts=counts)


class Batch(NamedTuple):
    """What some reducers know of the anchors beside their values."""

    anchors: int
    """How many there are."""
    candidates: int
    """How many each of them was compared with."""
    labels: Tensor | None = None
    """Class indices [anchors], or rows [anchors, classes]."""
    embeddings: Tensor | None = None
    """[anchors, D]; None where the anchors are not images."""
