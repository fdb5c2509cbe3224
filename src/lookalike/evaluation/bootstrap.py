"""Confidence intervals by resampling the queries."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

__all__ = ["bootstrap_intervals"]

DRAWS_AT_ONCE = 4_000_000


def bootstrap_intervals(
    per_query: Mapping[str, NDArray[np.float64]],
    *,
    confidence: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
) -> dict[str, tuple[float, float]]:
    """Percentile intervals of the mean of each metric (Efron and Tibshirani, 1993).

    Queries are drawn with replacement, the same draws for every metric. Values that are NaN
    (nothing relevant) must be the same queries in all metrics; they are left out first.

    >>> bootstrap_intervals({"recall@1": np.array([1.0, 1.0, 1.0])})
    {'recall@1': (1.0, 1.0)}
    """
    values = {name: of_each[~np.isnan(of_each)] for name, of_each in per_query.items()}
    number = len(next(iter(values.values()), np.empty(0)))
    if number == 0:
        return dict.fromkeys(values, (np.nan, np.nan))
    random = np.random.default_rng(seed)
    means = {name: np.empty(resamples) for name in values}
    step = max(1, DRAWS_AT_ONCE // number)
    for start in range(0, resamples, step):
        stop = min(start + step, resamples)
        draws = random.integers(0, number, (stop - start, number), dtype=np.int32)
        for name, of_each in values.items():
            means[name][start:stop] = of_each[draws].mean(axis=1)
    tail = (1 - confidence) / 2
    edges = {name: np.quantile(mean, (tail, 1 - tail)) for name, mean in means.items()}
    return {name: (float(low), float(high)) for name, (low, high) in edges.items()}
