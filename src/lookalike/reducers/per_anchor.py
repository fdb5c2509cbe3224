"""First the values of each anchor become one, then those of all anchors."""

from collections.abc import Callable
from typing import TypeAlias

import torch
from torch import Tensor

from lookalike.errors import BadInput
from lookalike.reducers.base import Reducer, ReducerLike, build
from lookalike.reducers.mean import MeanReducer
from lookalike.reducers.terms import Batch, Listed, Terms
from lookalike.registry import REDUCERS

__all__ = ["PerAnchorReducer"]

Aggregation: TypeAlias = Callable[[Tensor, Tensor], Tensor]


@REDUCERS.register("per-anchor")
class PerAnchorReducer(Reducer):
    """The mean over the pairs or triplets of each anchor, then ``reducer`` over all anchors.

    Every anchor weighs the same, however many pairs it has; one that has none counts as 0. Values
    per anchor or image go to ``reducer`` as they are.

    Args:
        reducer: For the values of the anchors; None: the mean.
        aggregation_func: Instead of the mean, for pairs: a function of the values [anchors,
            candidates], 0 where there is no pair, and the number of pairs of each anchor.

    >>> pairs = Terms(torch.tensor([1.0, 3.0, 8.0]), places=Listed(torch.tensor([0, 0, 1])))
    >>> PerAnchorReducer().of_anchors(pairs, Batch(2, 4))
    tensor([2., 8.])
    """

    def __init__(
        self, reducer: ReducerLike | None = None, aggregation_func: Aggregation | None = None
    ) -> None:
        self.reducer = MeanReducer() if reducer is None else build(reducer)
        self.aggregation_func = aggregation_func

    def reduce(self, terms: Terms, batch: Batch | None = None) -> Tensor:
        """``reducer`` of one value per anchor."""
        if terms.kind in ("already_reduced", "element"):
            return self.reducer.reduce(terms, batch)
        if batch is None:
            raise BadInput("a reducer per anchor needs to know how many anchors there are")
        return self.reducer.reduce(Terms(self.of_anchors(terms, batch), name=terms.name), batch)

    def of_anchors(self, terms: Terms, batch: Batch) -> Tensor:
        """One value per anchor."""
        ones = torch.ones_like(terms.values, requires_grad=False)
        weights = ones if terms.weights is None else terms.weights
        counts = weights if terms.counts is None else terms.counts
        values, counts = terms.values * weights, counts.expand_as(ones)
        if self.aggregation_func is not None:
            matrix, counts = (_matrix(terms, each, batch) for each in (values, counts))
            return self.aggregation_func(matrix, counts.sum(1))
        anchors, sums = terms.anchors(), []
        for each in (values, counts):
            zeros = each.new_zeros(batch.anchors)
            sums.append(zeros.index_add(0, anchors, _of_rows(each)))
        return sums[0] / sums[1].clamp_min(torch.finfo(values.dtype).tiny)


def _matrix(terms: Terms, values: Tensor, batch: Batch) -> Tensor:
    """The values of pairs as [anchors, candidates]."""
    if terms.places is None:
        return values
    if isinstance(terms.places, Listed):
        places = terms.places.anchors * batch.candidates + terms.places.others[0]
    else:
        places = terms.places.places
    if terms.kind == "triplet":
        raise BadInput("aggregation_func is for pairs; this loss has triplets")
    flat = values.new_zeros(batch.anchors * batch.candidates)
    return flat.index_add(0, places, values).view(batch.anchors, batch.candidates)


def _of_rows(values: Tensor) -> Tensor:
    """The sum of each row."""
    return values if values.ndim == 1 else values.sum(tuple(range(1, values.ndim)))
