"""The result of an evaluation: scores, values per query and per class, confidence intervals."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lookalike.errors import BadInput
from lookalike.evaluation.inputs import LabelArray
from lookalike.evaluation.relevance import Ints

DRAWS_AT_ONCE = 4_000_000

PerQuery = Mapping[str, NDArray[np.float64]]
QuerySummary = Callable[[NDArray[np.float64]], Any]
"""Makes one number of the values of queries, such as their mean."""


@dataclass(frozen=True)
class ClassScores:
    """The scores of one class, over its queries.

    Args:
        label: The class; the column of multi-hot labels.
        queries: Number of its queries.
        without_relevant: How many of them have nothing relevant in the gallery.
        scores: Each rank metric over the others, NaN if there are none.
    """

    label: Any
    queries: int
    without_relevant: int
    scores: dict[str, float]


@dataclass(frozen=True)
class WorstQuery:
    """A query with a low score.

    Args:
        index: Its row.
        label: Its label; the list of its columns if labels are multi-hot.
        value: The metric.
    """

    index: int
    label: object
    value: float


@dataclass(frozen=True)
class Evaluation:
    """The scores of a set of embeddings, and the values per query behind them.

    Args:
        scores: Value of each metric; of a rank metric the mean over queries, or its own summary,
            without those that have nothing relevant in the gallery.
        per_query: One value per query for each rank metric, NaN where nothing is relevant.
        labels: Labels of the queries.
        queries: Number of queries.
        gallery: Number of gallery items.
        queries_without_relevant: Number of queries that have nothing relevant in the gallery.
        intervals: Confidence interval of each rank metric over classes, if asked for.
        summaries: What makes a score of the values per query, by rank metric; the mean of one that
            is not named.
    """

    scores: dict[str, float]
    per_query: dict[str, NDArray[np.float64]]
    labels: LabelArray
    queries: int
    gallery: int
    queries_without_relevant: int
    intervals: dict[str, tuple[float, float]] = field(default_factory=dict)
    summaries: Mapping[str, QuerySummary] = field(default_factory=dict)

    def per_class(self) -> list[ClassScores]:
        """The rank metrics by class, in order of the labels.

        Recall@k of a class is its hit rate. With multi-hot labels a query counts in each of its
        classes.
        """
        without = np.isnan(next(iter(self.per_query.values()), np.zeros(self.queries)))
        return [
            ClassScores(
                label,
                len(members),
                int(without[members].sum()),
                {
                    name: summarize(values[members], self.summaries.get(name, np.mean))
                    for name, values in self.per_query.items()
                },
            )
            for label, members in _members(self.labels)
        ]

    def worst(self, metric: str | None = None, number: int = 20) -> list[WorstQuery]:
        """The ``number`` queries with the lowest ``metric``; None: the last rank metric.

        Queries without relevant items are left out; equal values keep the order of the rows.
        """
        if metric is None and self.per_query:
            metric = next(reversed(self.per_query))
        if metric is None or metric not in self.per_query:
            known = ", ".join(self.per_query) or "none"
            raise BadInput(f"there are no values per query of '{metric}'; there are: {known}")
        values = self.per_query[metric]
        order = np.argsort(values, kind="stable")[:number]  # NaN last
        return [
            WorstQuery(int(i), _plain(self.labels[i]), float(values[i]))
            for i in order
            if not np.isnan(values[i])
        ]


def bootstrap_intervals(
    per_query: PerQuery,
    labels: LabelArray,
    confidence: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
    summaries: Mapping[str, QuerySummary] | None = None,
) -> dict[str, tuple[float, float]]:
    """Percentile intervals of each metric over classes (Efron and Tibshirani, 1993).

    Queries of a class share what makes the class easy or hard, so they are not independent: classes
    are drawn with replacement (:func:`draw_again`), each with all its queries, the same for every
    metric. The gallery stays as it is. A metric is the mean over queries, or what ``summaries``
    names for it.

    Values that are NaN (nothing relevant) must be the same queries in all metrics; they are left
    out first. Of fewer than two classes nothing is known. Queries of multi-hot labels are drawn
    together where they have the same labels.

    >>> bootstrap_intervals({"recall@1": np.array([1.0, 1.0, 1.0])}, np.array([0, 0, 1]))
    {'recall@1': (1.0, 1.0)}
    """
    if not per_query:
        return {}
    counted = ~np.isnan(next(iter(per_query.values())))
    groups = np.unique(labels[counted], axis=0, return_inverse=True)[1].ravel()
    sizes = np.bincount(groups)
    if len(sizes) < 2:
        return dict.fromkeys(per_query, (np.nan, np.nan))
    values = {name: of_each[counted] for name, of_each in per_query.items()}
    sums = {name: np.bincount(groups, of_each) for name, of_each in values.items()}
    random = np.random.default_rng(seed)
    found: dict[str, list[NDArray[np.float64]]] = {name: [] for name in values}
    step = max(1, DRAWS_AT_ONCE // len(groups))
    for start in range(0, resamples, step):
        count = min(step, resamples - start)
        times = draw_again(random, count, len(sizes))
        for name, of_each in values.items():
            summary = (summaries or {}).get(name, np.mean)
            if summary is np.mean:
                found[name].append(times @ sums[name] / (times @ sizes))
            else:
                again = [np.repeat(of_each, row[groups]) for row in times]
                found[name].append(np.array([float(summary(one)) for one in again]))
    tail = (1 - confidence) / 2
    edges = {n: np.quantile(np.concatenate(each), (tail, 1 - tail)) for n, each in found.items()}
    return {name: (float(low), float(high)) for name, (low, high) in edges.items()}


def draw_again(random: np.random.Generator, count: int, number: int) -> Ints:
    """How often each of ``number`` is drawn, in ``count`` bootstrap samples: [count, number].

    Of n, n - 1 are drawn (of one, one), so that the variance of few is not underestimated (Rao and
    Wu, 1988).
    """
    drawn = random.integers(0, number, (count, max(number - 1, 1)))
    drawn += np.arange(count)[:, None] * number
    return np.bincount(drawn.ravel(), minlength=count * number).reshape(count, number)


def summarize(values: NDArray[np.float64], summary: QuerySummary = np.mean) -> float:
    """The mean, or another summary, of the values that are not NaN; NaN if there are none."""
    known = values[~np.isnan(values)]
    return float(summary(known)) if len(known) else math.nan


def _members(labels: LabelArray) -> list[tuple[Any, Ints]]:
    """Each class with its rows."""
    if labels.ndim == 2:
        return [(column, labels[:, column].nonzero()[0]) for column in range(labels.shape[1])]
    classes, codes, sizes = np.unique(labels, return_inverse=True, return_counts=True)
    order = np.argsort(codes, kind="stable")
    parts = np.split(order, np.cumsum(sizes)[:-1])
    return list(zip(classes.tolist(), parts, strict=True))


def _plain(label: object) -> object:
    """A label as a plain Python value."""
    if isinstance(label, np.ndarray):
        return label.nonzero()[0].tolist()
    return label.item() if isinstance(label, np.generic) else label
