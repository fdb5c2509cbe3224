"""Reducers of PML, and of those who subclass its base, in losses of ours."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from lookalike.errors import BadInput
from lookalike.reducers.base import Reducer
from lookalike.reducers.loss_dict import as_loss_dict
from lookalike.reducers.terms import Batch, Terms

__all__ = ["OtherReducer"]


class OtherReducer(Reducer):
    """A reducer that is called as PML's: ``(loss_dict, embeddings, labels)``.

    Args:
        reducer: The reducer.
    """

    def __init__(self, reducer: Callable[..., Any]) -> None:
        if not callable(reducer):
            raise BadInput(
                f"'{reducer}' is not a reducer; give a name, or one of lookalike.reducers"
            )
        self.reducer = reducer

    def for_each(self, names: Sequence[str]) -> Reducer:  # noqa: ARG002
        """Itself: it may have one for each kind."""
        return self

    def combine(self, parts: Sequence[Terms], batch: Batch | None = None) -> Tensor:
        """What it makes of each kind of elements, added up."""
        if batch is None:
            raise BadInput("a reducer of another package needs the batch")
        embeddings = batch.embeddings
        if embeddings is None:
            embeddings = torch.zeros(batch.anchors, 1).to(parts[0].values)
        found = [
            self.reducer({name: entry}, embeddings, batch.labels)
            for name, entry in as_loss_dict(parts, batch).items()
        ]
        if all(isinstance(each, dict) for each in found):  # its reducer that does nothing
            return {name: entry for each in found for name, entry in each.items()}  # type: ignore[return-value]
        total: Tensor = sum(found[1:], found[0])
        return total
