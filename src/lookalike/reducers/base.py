"""What every reducer is: the values of the elements in, one number out."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, cast

from torch import Tensor

from lookalike.distances.statistics import Statistics
from lookalike.reducers.loss_dict import LossDict, from_loss_dict
from lookalike.reducers.terms import Batch, Terms
from lookalike.registry import REDUCERS

__all__ = ["Reducer", "ReducerLike", "build"]


class Reducer(Statistics):
    """How the values of pairs, triplets, anchors or images become one number.

    A subclass writes ``reduce(terms, batch)``. A loss with several kinds of elements (positive and
    negative pairs) reduces each kind and adds them up. Called as PML's, a reducer takes
    ``(loss_dict, embeddings, labels)``.
    """

    def reduce(self, terms: Terms, batch: Batch | None = None) -> Tensor:
        """One number of the values of one kind of elements."""
        raise NotImplementedError

    def combine(self, parts: Sequence[Terms], batch: Batch | None = None) -> Tensor:
        """One number of the values of all kinds of elements."""
        total = self.reduce(parts[0], batch)
        for part in parts[1:]:
            total = total + self.reduce(part, batch)
        return total

    def for_each(self, names: Sequence[str]) -> "Reducer":
        """This reducer for a loss with these kinds of elements: for several, one for each."""
        if len(names) == 1:
            return self
        from lookalike.reducers.several import MultipleReducers

        return MultipleReducers(dict.fromkeys(names, self), self)

    def add(self, loss: Tensor, name: str, penalty: Tensor) -> Tensor:  # noqa: ARG002
        """The loss with a penalty, which no reducer changes; ``name`` is what PML calls it."""
        return loss + penalty

    def __call__(self, loss_dict: LossDict, embeddings: Tensor, labels: Tensor | None) -> Tensor:
        """The same from what PML's losses give their reducers."""
        batch = Batch(len(embeddings), len(embeddings), labels, embeddings)
        return self.combine(from_loss_dict(loss_dict, embeddings), batch)


ReducerLike: TypeAlias = Any
"""A reducer, its name, ``{name: ..., argument: ...}``, or one of PML's."""


def build(given: ReducerLike) -> Reducer:
    """A reducer by name, or by ``{name: ..., argument: ...}``; one of PML's in an adapter."""
    if isinstance(given, Reducer):
        return given
    if isinstance(given, str | Mapping):
        return cast(Reducer, REDUCERS.build(given))
    from lookalike.reducers.adapter import OtherReducer

    return OtherReducer(given)
