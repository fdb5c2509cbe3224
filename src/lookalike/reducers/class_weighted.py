"""The mean of the values, each times the weight of its anchor's class."""

from collections.abc import Sequence

import torch
from torch import Tensor

from lookalike.errors import BadInput
from lookalike.ops.sync import can_sync
from lookalike.reducers.base import Reducer
from lookalike.reducers.mean import mean
from lookalike.reducers.terms import Batch, Terms
from lookalike.registry import REDUCERS

__all__ = ["ClassWeightedReducer"]


@REDUCERS.register("class-weighted")
class ClassWeightedReducer(Reducer):
    """The mean of the values, each times the weight of its anchor's class.

    The number of values is not weighted (as in PML). An image of several classes has the mean of
    their weights, by its share of each.

    Args:
        weights: One per class, in order of class index.

    >>> batch = Batch(2, 2, torch.tensor([0, 1]))
    >>> ClassWeightedReducer([1.0, 5.0]).reduce(Terms(torch.ones(2)), batch)
    tensor(3.)
    """

    def __init__(self, weights: Tensor | Sequence[float]) -> None:
        self.weights = torch.as_tensor(weights)
        if self.weights.ndim != 1:
            raise BadInput(
                f"class weights have shape {tuple(self.weights.shape)}; give one number per class"
            )

    def reduce(self, terms: Terms, batch: Batch | None = None) -> Tensor:
        """``mean of weight[class of the anchor] * v``."""
        if terms.values.ndim == 0:
            return terms.values
        if batch is None or batch.labels is None:
            raise BadInput("class weights need labels")
        factors = self.of_images(batch.labels, terms.values).index_select(0, terms.anchors())
        return mean(terms._replace(values=terms.values * terms.along_values(factors)))

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
