"""The mean, the sum, and the sum over a divisor that the loss gives."""

from dataclasses import dataclass

import torch
from torch import Tensor

from lookalike.reducers.base import Reducer
from lookalike.reducers.terms import Batch, Terms
from lookalike.registry import REDUCERS

__all__ = ["DivisorReducer", "MeanReducer", "SumReducer", "mean"]


def mean(terms: Terms) -> Tensor:
    """``sum of w v / sum of counts``; 0 where nothing counts.

    Args:
        terms: One value per element.

    Returns:
        A scalar.

    >>> mean(Terms(torch.tensor([1.0, 3.0]), torch.tensor([1.0, 0.0])))
    tensor(1.)
    """
    values, weights, counts = terms[:3]
    if weights is None:
        return values.mean()
    number = (weights if counts is None else counts).sum()
    return (values * weights).sum() / number.clamp_min(torch.finfo(values.dtype).tiny)


@REDUCERS.register("mean")
@dataclass(frozen=True)
class MeanReducer(Reducer):
    """The mean of the values; 0 where nothing counts.

    >>> MeanReducer().reduce(Terms(torch.tensor([1.0, 3.0])))
    tensor(2.)
    """

    def reduce(self, terms: Terms, batch: Batch | None = None) -> Tensor:  # noqa: ARG002
        """``mean``."""
        return mean(terms)


@REDUCERS.register("sum")
@dataclass(frozen=True)
class SumReducer(Reducer):
    """The sum of the values.

    >>> SumReducer().reduce(Terms(torch.tensor([1.0, 3.0])))
    tensor(4.)
    """

    def reduce(self, terms: Terms, batch: Batch | None = None) -> Tensor:  # noqa: ARG002
        """``sum of w v``."""
        return terms.total()


@REDUCERS.register("divisor")
@dataclass(frozen=True)
class DivisorReducer(Reducer):
    """The sum of the values over what the loss says; over their number where it says nothing.

    Margin divides by the number of hinges above zero, proxy-anchor by that of the proxies that have
    a positive.

    >>> DivisorReducer().reduce(Terms(torch.tensor([1.0, 3.0]), divisor=torch.tensor(8)))
    tensor(0.5000)
    """

    def reduce(self, terms: Terms, batch: Batch | None = None) -> Tensor:  # noqa: ARG002
        """``sum of w v / divisor``; 0 where the divisor is 0."""
        if terms.values.ndim == 0:
            return terms.values
        if terms.divisor is None:
            return terms.total() / terms.number()
        some = terms.divisor != 0
        return torch.where(some, terms.total() / terms.divisor.where(some, 1), 0)
