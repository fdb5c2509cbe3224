"""Reducers that look at whose value it is: the class of its anchor, its anchor, its kind."""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import torch
from torch import Tensor

from lookalike.errors import BadInput
from lookalike.ops.device import can_sync
from lookalike.reducers.base import MeanReducer, Reducer, ReducerLike, Terms, mean
from lookalike.registry import REDUCERS
from lookalike.relations import Relations

__all__ = ["ClassWeightedReducer", "MultipleReducers", "PerAnchorReducer"]

Aggregation: TypeAlias = Callable[[Tensor, Tensor], Tensor]


@REDUCERS.register("class-weighted")
class ClassWeightedReducer(Reducer):
    """The mean of the values, each times the weight of its anchor's class.

    The number of values is not weighted. An image of several classes has the mean of their weights,
    by its share of each.

    Args:
        weights: One per class, in order of class index.
    """

    def __init__(self, weights: Tensor | Sequence[float]) -> None:
        self.weights = torch.as_tensor(weights)
        if self.weights.ndim != 1:
            raise BadInput(
                f"class weights have shape {tuple(self.weights.shape)}; give one number per class"
            )

    def reduce(self, terms: Terms, relations: Relations) -> Tensor:
        """``mean of weight[class of the anchor] * v``."""
        if relations.labels is None:
            raise BadInput("class weights need labels")
        factors = self.of_images(relations.labels, terms.values)
        return mean(terms._replace(values=terms.values * terms.of_anchors(factors)))

    def of_images(self, labels: Tensor, like: Tensor) -> Tensor:
        """The weight of each image."""
        weights = self.weights.to(like)
        if labels.ndim == 1:
            least, most = labels.aminmax() if can_sync(labels) and labels.numel() else (0, 0)
            if least < 0 or most >= len(weights):
                raise BadInput(
                    f"there are {len(weights)} class weights, but labels from {least} to {most}"
                )
            return weights.index_select(0, labels.to(like.device))
        rows = labels.to(like)
        if rows.shape[1] != len(weights):
            raise BadInput(
                f"labels are rows of {rows.shape[1]} classes, but there are {len(weights)} weights"
            )
        return rows @ weights / rows.sum(1).clamp_min(torch.finfo(like.dtype).tiny)


@REDUCERS.register("per-anchor")
class PerAnchorReducer(Reducer):
    """The mean over the pairs or triplets of each anchor, then ``reducer`` over all anchors.

    Every anchor weighs the same, however many pairs it has; one that has none counts as 0. Values
    per anchor or image go to ``reducer`` as they are.

    Args:
        reducer: For the values of the anchors; None: the mean.
        aggregation_func: Instead of the mean, for pairs: a function of the values [anchors,
            candidates], 0 where there is no pair, and the number of pairs of each anchor.
    """

    def __init__(
        self, reducer: ReducerLike | None = None, aggregation_func: Aggregation | None = None
    ) -> None:
        self.reducer = REDUCERS.build(reducer or MeanReducer(), Reducer)
        self.aggregation_func = aggregation_func

    def reduce(self, terms: Terms, relations: Relations) -> Tensor:
        """``reducer`` of one value per anchor."""
        if terms.values.ndim == 1 and len(terms.images) < 2:
            return self.reducer.reduce(terms, relations)
        of_anchors = Terms(self.of_anchors(terms, relations), name=terms.name)
        return self.reducer.reduce(of_anchors, relations)

    def of_anchors(self, terms: Terms, relations: Relations) -> Tensor:
        """One value per anchor."""
        values = terms.values
        weights = torch.ones_like(values) if terms.weights is None else terms.weights
        counts = (weights if terms.counts is None else terms.counts).expand_as(values)
        values = values * weights
        if self.aggregation_func is not None:
            matrix, counts = (_matrix(terms, each, relations) for each in (values, counts))
            return self.aggregation_func(matrix, counts.sum(1))
        if not terms.images:
            total, number = values.sum(1), counts.sum(1)
        else:
            anchors = terms.images[0].expand_as(values).reshape(-1)
            blank = values.new_zeros(len(relations.similarity))
            total = blank.index_add(0, anchors, values.reshape(-1))
            number = blank.index_add(0, anchors, counts.reshape(-1).to(blank.dtype))
        return total / number.clamp_min(torch.finfo(values.dtype).tiny)


def _matrix(terms: Terms, values: Tensor, relations: Relations) -> Tensor:
    """The values of pairs as [anchors, candidates]."""
    if not terms.images:
        return values
    if len(terms.images) != 2:
        raise BadInput("aggregation_func is for pairs; this loss has triplets")
    blank = torch.zeros_like(relations.similarity)
    return blank.index_put(terms.images, values, accumulate=True)


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
        self.reducers = {name: REDUCERS.build(each, Reducer) for name, each in reducers.items()}
        self.default_reducer = REDUCERS.build(default_reducer or MeanReducer(), Reducer)

    def reduce(self, terms: Terms, relations: Relations) -> Tensor:
        """By the reducer of these elements."""
        return self.reducers.get(terms.name, self.default_reducer).reduce(terms, relations)
