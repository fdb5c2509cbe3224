"""The mean, the sum, the sum over a divisor, and the mean of the values between two limits."""

from dataclasses import dataclass

import torch
from torch import Tensor

from lookalike.errors import BadInput
from lookalike.reducers.base import Reducer, Terms
from lookalike.registry import REDUCERS
from lookalike.relations import Relations

__all__ = [
    "AvgNonZeroReducer",
    "DivisorReducer",
    "MeanReducer",
    "SumReducer",
    "ThresholdReducer",
    "mean",
    "mean_above_zero",
]


def mean(terms: Terms) -> Tensor:
    """``sum of w v / sum of counts``; 0 where nothing counts.

    Args:
        terms: One value per element.

    Returns:
        A scalar.

    >>> mean(Terms(torch.tensor([1.0, 3.0]), torch.tensor([1.0, 0.0])))
    tensor(1.)
    """
    if terms.weights is None:
        return terms.values.mean()
    return terms.total() / terms.number()


def mean_above_zero(terms: Terms) -> Tensor:
    """The mean over the values above zero; 0 where there is none.

    Args:
        terms: One value per element.

    Returns:
        A scalar.

    >>> mean_above_zero(Terms(torch.tensor([0.0, 3.0])))
    tensor(3.)
    """
    above = (terms.values > 0).to(terms.values.dtype)
    if terms.weights is None:
        return mean(terms._replace(weights=above))
    counts = terms.weights if terms.counts is None else terms.counts
    number = Terms(above, counts).total().clamp_min(torch.finfo(above.dtype).tiny)
    return terms._replace(values=terms.values.relu()).total() / number


@REDUCERS.register("mean")
@dataclass(frozen=True)
class MeanReducer(Reducer):
    """The mean of the values; 0 where nothing counts."""

    def reduce(self, terms: Terms, relations: Relations) -> Tensor:  # noqa: ARG002
        """``sum of w v / sum of counts``."""
        return mean(terms)


@REDUCERS.register("sum")
@dataclass(frozen=True)
class SumReducer(Reducer):
    """The sum of the values."""

    def reduce(self, terms: Terms, relations: Relations) -> Tensor:  # noqa: ARG002
        """``sum of w v``."""
        return terms.total()


@REDUCERS.register("divisor")
@dataclass(frozen=True)
class DivisorReducer(Reducer):
    """The sum of the values over what the loss says; over their number where it says nothing.

    Margin divides by the number of hinges above zero, proxy-anchor by that of the proxies that have
    a positive.
    """

    def reduce(self, terms: Terms, relations: Relations) -> Tensor:  # noqa: ARG002
        """``sum of w v / divisor``; 0 where the divisor is 0."""
        if terms.divisor is None:
            return terms.total() / terms.number()
        some = terms.divisor != 0
        return torch.where(some, terms.total() / terms.divisor.where(some, 1), 0)


@REDUCERS.register("threshold")
@dataclass(frozen=True)
class ThresholdReducer(Reducer):
    """The mean over the values above ``low`` and below ``high``; 0 where there is none.

    Args:
        low: Values at or below it are left out; None: no such limit.
        high: Values at or above it are left out; None: no such limit.
    """

    low: float | None = None
    high: float | None = None

    def __post_init__(self) -> None:
        if self.low is None and self.high is None:
            raise BadInput("a threshold reducer needs low or high, or both")

    def reduce(self, terms: Terms, relations: Relations) -> Tensor:  # noqa: ARG002
        """``mean`` of what lies between the limits."""
        inside = torch.ones_like(terms.values, dtype=torch.bool)
        if self.low is not None:
            inside &= terms.values > self.low
        if self.high is not None:
            inside &= terms.values < self.high
        return mean(terms.only(inside.to(terms.values.dtype)))


@REDUCERS.register("avg-non-zero")
@dataclass(frozen=True)
class AvgNonZeroReducer(Reducer):
    """The mean over the values above zero; 0 where there is none."""

    def reduce(self, terms: Terms, relations: Relations) -> Tensor:  # noqa: ARG002
        """``mean`` of the values above zero."""
        return mean_above_zero(terms)
