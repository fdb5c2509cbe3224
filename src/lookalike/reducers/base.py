"""What a loss gives a reducer, and what every reducer is: values in, one number out."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias, cast

import torch
from torch import Tensor

from lookalike.errors import BadInput
from lookalike.registry import REDUCERS
from lookalike.relations import Relations

__all__ = ["Reducer", "ReducerLike", "Terms", "build"]


class Terms(NamedTuple):
    """One value per element: pair, triplet, anchor, image or proxy."""

    values: Tensor
    """[rows, ...] one value per element; a scalar is a part of the loss that no reducer changes."""
    weights: Tensor | None = None
    """How much each value counts in the sum; None is 1."""
    counts: Tensor | None = None
    """How often each value counts in the number of elements; None is its weight."""
    name: str = "loss"
    """What ``MultipleReducers`` calls these: ``loss``, ``pos_loss``, ``neg_loss``, ..."""
    images: tuple[Tensor, ...] = ()
    """Indices of the anchor of each value, its candidate, its second candidate; they broadcast.
    Empty: the values are those of all anchors, or of all pairs [anchors, candidates]."""
    divisor: Tensor | None = None
    """What the loss itself divides the sum by; None: the number of elements."""

    def of_anchors(self, numbers: Tensor) -> Tensor:
        """One number per anchor, shaped so that the values can be multiplied by it."""
        if not self.images:
            return numbers.view(-1, *[1] * (self.values.ndim - 1))
        anchors = self.images[0]
        return numbers.index_select(0, anchors.reshape(-1)).view(anchors.shape)

    def total(self) -> Tensor:
        """The sum of the values by their weights."""
        if self.weights is None:
            return self.values.sum()
        weights = self.weights.expand_as(self.values)
        return torch.dot(self.values.reshape(-1), weights.reshape(-1))

    def number(self) -> Tensor:
        """How many elements count; never 0, so that it can divide."""
        counted = self.weights if self.counts is None else self.counts
        if counted is None:
            return self.values.new_tensor(max(1, self.values.numel()))
        return counted.expand_as(self.values).sum().clamp_min(torch.finfo(counted.dtype).tiny)

    def only(self, kept: Tensor) -> "Terms":
        """The elements where ``kept`` is 1."""
        weights = kept if self.weights is None else kept * self.weights
        same = self.counts is self.weights
        counts = None if self.counts is None or same else kept * self.counts
        return self._replace(weights=weights, counts=counts)


class Reducer:
    """How the values of pairs, triplets, anchors or images become one number.

    A subclass writes ``reduce(terms, relations)``. A loss with several kinds of elements (positive
    and negative pairs) reduces each kind and adds them up.
    """

    def reduce(self, terms: Terms, relations: Relations) -> Tensor:
        """One number of the values of one kind of elements."""
        raise NotImplementedError

    def combine(self, parts: Sequence[Terms], relations: Relations) -> Tensor:
        """One number of all parts of a loss; a part that is a number already is only added."""
        found = [
            part.values if part.values.ndim == 0 else self.reduce(part, relations) for part in parts
        ]
        total = found[0]
        for value in found[1:]:
            total = total + value
        return total


ReducerLike: TypeAlias = Reducer | str | Mapping[str, Any]
"""A reducer, its name, or ``{name: ..., argument: ...}``."""


def build(given: ReducerLike) -> Reducer:
    """A reducer by name, or by ``{name: ..., argument: ...}``; a reducer as it is.

    Args:
        given: One of these.

    Returns:
        The reducer.
    """
    if isinstance(given, str | Mapping):
        return cast(Reducer, REDUCERS.build(given))
    if not isinstance(given, Reducer):
        raise BadInput(f"'{given}' is not a reducer; give a name, or one of lookalike.reducers")
    return given
