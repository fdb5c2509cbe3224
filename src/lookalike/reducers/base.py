"""What a loss gives a reducer, what every reducer is, and those that look at the values alone.

Values in, one number out: the mean, the sum, the sum over a divisor, and the mean of the values
above zero or between two limits.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor

from lookalike.errors import BadInput
from lookalike.registry import REDUCERS
from lookalike.relations import Relations

__all__ = [
    "AvgNonZeroReducer",
    "DivisorReducer",
    "MeanReducer",
    "Reducer",
    "ReducerLike",
    "SumReducer",
    "Terms",
    "ThresholdReducer",
    "mean",
    "mean_above_zero",
]


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
    negative: bool = False
    """Whether pairs are negative ones."""

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


def positive_terms(r: Relations, values: Tensor) -> Terms:
    """The values [anchors, candidates] of the positive pairs."""
    return Terms(values, r.positives, r.positive_counts, "pos_loss")


def negative_terms(r: Relations, values: Tensor) -> Terms:
    """The values [anchors, candidates] of the negative pairs."""
    return Terms(values, r.negatives, r.negative_counts, "neg_loss", negative=True)


def listed_terms(r: Relations, values: Tensor) -> Terms:
    """The values [P] of the positive pairs, one by one."""
    weights = r.at_pairs(r.positives)
    counts = weights if r.share is None else r.at_pairs(r.positive_counts)
    return Terms(values, weights, counts, images=r.listed_pairs)


def triplet_terms(r: Relations, values: Tensor) -> Terms:
    """The values [P, K] of the triplets."""
    anchor, positive = r.listed_pairs
    negative = None if r.triplets is None else r.triplets.negative
    if negative is None:
        negative = torch.arange(values.shape[1], device=anchor.device)
    images = anchor.unsqueeze(1), positive.unsqueeze(1), negative
    return Terms(values, *r.triplet_weights(), images=images)


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
        divides = terms.divisor != 0
        return torch.where(divides, terms.total() / terms.divisor.where(divides, 1), 0)


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
