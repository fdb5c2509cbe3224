"""The mean over the values that lie between two limits."""

from dataclasses import dataclass

import torch
from torch import Tensor

from lookalike.errors import BadInput
from lookalike.ops.sync import can_sync
from lookalike.reducers.base import Reducer
from lookalike.reducers.mean import mean
from lookalike.reducers.terms import Batch, Listed, Terms
from lookalike.registry import REDUCERS

__all__ = ["AvgNonZeroReducer", "ThresholdReducer", "mean_above_zero"]


def mean_above_zero(terms: Terms) -> Tensor:
    """The mean over the values above zero; 0 where there is none.

    Args:
        terms: One value per element.

    Returns:
        A scalar.

    >>> mean_above_zero(Terms(torch.tensor([0.0, 3.0])))
    tensor(3.)
    """
    values, weights, counts = terms[:3]
    above = (values > 0).to(values.dtype)
    if weights is None:
        return mean(Terms(values, above, above))
    return mean(Terms(values, above * weights, above * (weights if counts is None else counts)))


@REDUCERS.register("threshold")
@dataclass(frozen=True)
class ThresholdReducer(Reducer):
    """The mean over the values above ``low`` and below ``high``; 0 where there is none.

    Args:
        low: Values at or below it are left out; None: no such limit.
        high: Values at or above it are left out; None: no such limit.

    >>> ThresholdReducer(low=1, high=4).reduce(Terms(torch.tensor([1.0, 2.0, 3.0, 4.0])))
    tensor(2.5000)
    """

    low: float | None = None
    high: float | None = None

    def __post_init__(self) -> None:
        if self.low is None and self.high is None:
            raise BadInput("a threshold reducer needs low or high, or both")

    def reduce(self, terms: Terms, batch: Batch | None = None) -> Tensor:  # noqa: ARG002
        """``mean`` of what lies between the limits."""
        values = terms.values
        if values.ndim == 0:
            return values
        inside = torch.ones_like(values, dtype=torch.bool)
        if self.low is not None:
            inside &= values > self.low
        if self.high is not None:
            inside &= values < self.high
        if terms.weights is None and can_sync(values):
            kept = values[inside]
            return kept.mean() if kept.numel() else kept.sum()
        return mean(terms.only(inside.to(values.dtype)))


@REDUCERS.register("avg-non-zero")
class AvgNonZeroReducer(ThresholdReducer):
    """The mean over the values above zero; 0 where there is none.

    >>> AvgNonZeroReducer().reduce(Terms(torch.tensor([0.0, 2.0, 4.0])))
    tensor(3.)
    """

    def __init__(self) -> None:
        super().__init__(low=0)

    def reduce(self, terms: Terms, batch: Batch | None = None) -> Tensor:
        """``mean_above_zero``."""
        if isinstance(terms.places, Listed) or terms.values.ndim == 0:
            return super().reduce(terms, batch)
        return mean_above_zero(terms)
