"""Metrics by name, and those that follow from the ranks r_1 <= ... <= r_R of the relevant items.

A metric is one function, registered under its name. A function of ``ranks`` (:class:`Ranks`) gives
one value per query, from the ranks of that query alone; the score is the mean over queries, or what
``@over_queries`` names. A function of ``space`` (:class:`EmbeddingSpace`) gives one value for the
whole set. A name that ends in ``@k`` stands for every whole number k, the function's second
argument.
"""

import inspect
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from lookalike.errors import BadInput, did_you_mean
from lookalike.evaluation.ranks import Ranks
from lookalike.evaluation.results import QuerySummary
from lookalike.registry import METRICS

Values = NDArray[np.float64]
Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(frozen=True)
class Metric:
    """A metric found by name: its function, and the k of a name such as ``recall@5``."""

    name: str
    function: Callable[..., Any]
    k: tuple[int, ...]
    per_query: bool

    @property
    def needs_training(self) -> bool:
        """Whether it reads the embeddings of the training images."""
        return getattr(self.function, "needs_training", False)

    @property
    def summary(self) -> QuerySummary:
        """What makes one score of the values of all queries."""
        return getattr(self.function, "over_queries", np.mean)

    def of_queries(self, ranks: Ranks) -> Values:
        """One value per query of the block; NaN where nothing is relevant."""
        values = np.asarray(self.function(ranks, *self.k), np.float64)
        if values.shape != ranks.relevant.shape:
            raise BadInput(
                f"metric '{self.name}' must return one value per query, shape "
                f"{ranks.relevant.shape}, not {values.shape}"
            )
        return np.where(ranks.relevant > 0, values, np.nan)


def diagnostic(function: Function) -> Function:
    """Mark a metric that describes the embeddings and is not a score.

    A score lies between 0 and 1, and more of it is better. A diagnostic ranks no methods, chooses
    no epoch, and is printed as a plain number instead of per cent.

    Args:
        function: The metric.

    Returns:
        The same function.
    """
    function.diagnostic = True  # type: ignore[attr-defined]
    return function


def over_queries(summary: QuerySummary) -> Callable[[Function], Function]:
    """Give a metric of ``ranks`` another summary over queries than the mean.

    Ranks come in blocks of queries and from several processes; the summary gets the values of all
    queries together. It is also taken of the queries of one class (``per_class``) and of each
    bootstrap sample (``intervals``).

    Args:
        summary: Makes one number of an array of values, one per query that has relevant items;
            such as ``np.median``.

    Returns:
        A decorator that returns the same function.

    >>> @over_queries(np.median)
    ... def median_first_rank(ranks: Ranks) -> Values:
    ...     return ranks.first()
    """

    def mark(function: Function) -> Function:
        function.over_queries = summary  # type: ignore[attr-defined]
        return function

    return mark


def needs_training(function: Function) -> Function:
    """Mark a metric of ``space`` that reads the training images too, ``space.training``.

    Such a metric is computed in the final test, not on validation classes.

    Args:
        function: The metric.

    Returns:
        The same function.
    """
    function.needs_training = True  # type: ignore[attr-defined]
    return function


def find_metric(name: str) -> Metric:
    """The metric called ``name``: ``map@r``, ``recall@5``, ``package.module:function@5``."""
    match = re.fullmatch(r"(.+)@([1-9][0-9]*)", name)
    stem, k = (match[1], (int(match[2]),)) if match else (name, ())
    key = f"{stem}@k" if k and ":" not in name else stem
    if (key.endswith("@k") and not k) or key not in METRICS:
        raise BadInput(_refusal(name))
    function = METRICS.find(key).build
    signature = inspect.signature(function)
    subject = next(iter(signature.parameters), "")
    if subject not in ("ranks", "space"):
        raise BadInput(
            f"'{name}' is not a metric: its first argument must be called 'ranks' (one value per "
            f"query) or 'space' (one value for the set), not '{subject}'"
        )
    try:
        signature.bind(None, *k)
    except TypeError as error:
        raise BadInput(f"metric '{name}': {error}") from None
    return Metric(name, function, k, subject == "ranks")


def check_metrics(names: str | Sequence[str]) -> tuple[Metric, ...]:
    """Look metrics up by name.

    Args:
        names: Registered names (``map@r``), with a number for their k (``recall@5``), or functions
            to import (``package.module:function``, ``package.module:function@5``); or one of them.

    Returns:
        The metrics, each once, in the same order.

    Raises:
        BadInput: There is no name, or one is unknown; the sentence has the nearest.
    """
    if isinstance(names, str):
        names = (names,)
    if not names:
        raise BadInput("no metric is named; give at least one, such as 'recall@1'")
    return tuple(find_metric(name) for name in dict.fromkeys(names))


def more_is_better(name: str) -> bool:
    """Whether ``name`` is a metric between 0 and 1 of which more is better.

    >>> more_is_better("recall@5"), more_is_better("rho"), more_is_better("loss")
    (True, False, False)
    """
    try:
        return not getattr(find_metric(name).function, "diagnostic", False)
    except BadInput:
        return False


def _refusal(name: str) -> str:
    """Why there is no such metric, and the nearest name with the k that was asked for."""
    stem, at, k = name.rpartition("@")
    if at and f"{stem}@k" in METRICS:
        return f"the k of metric '{name}' must be a whole number from 1, not '{k}'"
    known = METRICS.names()
    if at and k.isdigit():
        known = [re.sub("@k$", f"@{k}", other) for other in known]
    return f"there is no metric '{name}'; {did_you_mean(name, known)}"


@METRICS.register("recall@k")
def recall_at(ranks: Ranks, k: int) -> Values:
    """[r_1 <= k]: whether one of the k nearest is relevant."""
    return (ranks.first() <= k).astype(np.float64)


@METRICS.register("precision@k")
def precision_at(ranks: Ranks, k: int) -> Values:
    """#{r_j <= k} / k, also where the gallery has fewer than k items."""
    return ranks.total(ranks.values <= k) / k


@METRICS.register("r-precision")
def r_precision(ranks: Ranks) -> Values:
    """#{r_j <= R} / R."""
    return ranks.mean(ranks.within_r)


@METRICS.register("map@r", paper="Musgrave et al., ECCV 2020")
def map_at_r(ranks: Ranks) -> Values:
    """1/R sum over r_j <= R of j / r_j."""
    return ranks.mean(ranks.within_r * ranks.place / ranks.values)


@METRICS.register("map")
def average_precision(ranks: Ranks) -> Values:
    """1/R sum_j j / r_j."""
    return ranks.mean(ranks.place / ranks.values)


@METRICS.register("map@k")
def map_at(ranks: Ranks, k: int) -> Values:
    """1/min(R, k) sum over r_j <= k of j / r_j; 1 where the k nearest are all relevant."""
    hits = ranks.total((ranks.values <= k) * ranks.place / ranks.values)
    return hits / np.maximum(np.minimum(ranks.relevant, k), 1)


@METRICS.register("mrr")
def reciprocal_rank(ranks: Ranks) -> Values:
    """1 / r_1."""
    return 1 / ranks.first()


@METRICS.register("ndcg@k", paper="Jarvelin and Kekalainen, TOIS 2002")
def ndcg_at(ranks: Ranks, k: int) -> Values:
    """DCG / ideal DCG with gains 0 and 1: sum over r_j <= k of 1 / log2(1 + r_j)."""
    gained = ranks.total((ranks.values <= k) / np.log2(1 + ranks.values))
    most = min(k, int(ranks.relevant.max(initial=0)))
    # The first, for queries without relevant items, may be anything but 0: they are left out.
    ideal = np.concatenate([[1.0], np.cumsum(1 / np.log2(np.arange(2, most + 2)))])
    best: Values = ideal[np.minimum(ranks.relevant, most)]
    return gained / best
