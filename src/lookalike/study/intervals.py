"""Mean, standard deviation and t-interval of a few repeats."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

__all__ = ["Interval", "interval"]


@dataclass(frozen=True)
class Interval:
    """The mean of some repeats, how much they differ, and where the true mean lies."""

    mean: float
    sd: float
    low: float
    high: float
    count: int


def interval(values: Sequence[float], confidence: float = 0.95) -> Interval:
    """``mean ± t(n - 1) sd / sqrt(n)``, ``sd`` with n - 1; one value alone has no interval (NaN).

    >>> found = interval([1.0, 2.0, 3.0])
    >>> round(found.mean, 3), round(found.sd, 3), round(found.low, 3), round(found.high, 3)
    (2.0, 1.0, -0.484, 4.484)
    """
    count = len(values)
    if count == 0:
        raise ValueError("no values: nothing to average")
    mean = float(np.mean(values))
    if count == 1:
        return Interval(mean, float("nan"), float("nan"), float("nan"), 1)
    sd = float(np.std(values, ddof=1))
    half = float(stats.t.ppf((1 + confidence) / 2, count - 1)) * sd / count**0.5
    return Interval(mean, sd, mean - half, mean + half, count)
