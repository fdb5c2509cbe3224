"""A reducer for each kind of elements, and none at all."""

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from lookalike.errors import BadInput
from lookalike.reducers.base import Reducer, ReducerLike, build
from lookalike.reducers.loss_dict import LossDict, as_loss_dict
from lookalike.reducers.mean import MeanReducer
from lookalike.reducers.terms import Batch, Terms
from lookalike.registry import REDUCERS

__all__ = ["DoNothingReducer", "MultipleReducers"]


@REDUCERS.register("multiple")
class MultipleReducers(Reducer):
    """A reducer for each kind of elements, and the sum of what they give.

    Args:
        reducers: By the name of the elements: ``loss``, or where a loss has two kinds ``pos_loss``
            and ``neg_loss``.
        default_reducer: For all others; None: the mean.
    """

    def __init__(
        self, reducers: Mapping[str, ReducerLike], default_reducer: ReducerLike | None = None
    ) -> None:
        self.reducers = {name: build(reducer) for name, reducer in reducers.items()}
        self.default_reducer = MeanReducer() if default_reducer is None else build(default_reducer)

    def for_each(self, names: Sequence[str]) -> Reducer:  # noqa: ARG002
        """Itself: it has one for each kind."""
        return self

    def reduce(self, terms: Terms, batch: Batch | None = None) -> Tensor:
        """By the reducer of these elements."""
        return self.reducers.get(terms.name, self.default_reducer).combine([terms], batch)


class DoNothingReducer(Reducer):
    """No reduction: the loss returns PML's dictionary of values and indices.

    ``{"loss": {"losses": values, "indices": where, "reduction_type": "pos_pair"}}``, an entry for
    each kind of elements. For a look at the values; a training step needs one number.
    """

    def for_each(self, names: Sequence[str]) -> Reducer:  # noqa: ARG002
        """Itself: it changes no kind."""
        return self

    def combine(  # type: ignore[override]
        self, parts: Sequence[Terms], batch: Batch | None = None
    ) -> dict[str, dict[str, Any]]:
        """The values themselves."""
        if batch is None:
            raise BadInput("a dictionary of losses needs to know how many candidates there are")
        return as_loss_dict(parts, batch)

    def add(  # type: ignore[override]
        self, loss: dict[str, dict[str, Any]], name: str, penalty: Tensor
    ) -> dict[str, dict[str, Any]]:
        """An entry more."""
        entry = {"losses": penalty, "indices": None, "reduction_type": "already_reduced"}
        return loss | {name: entry}

    def __call__(  # type: ignore[override]
        self,
        loss_dict: LossDict,
        embeddings: Tensor,  # noqa: ARG002
        labels: Tensor | None,  # noqa: ARG002
    ) -> LossDict:
        """What was given."""
        return loss_dict
