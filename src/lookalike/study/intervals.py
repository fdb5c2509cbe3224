"""Mean, standard deviation and t-interval over repeats; of one repeat, over its folds."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from statistics import fmean
from typing import Any, Literal

import numpy as np
from scipy.special import stdtrit  # scipy.stats takes a second to import


@dataclass(frozen=True)
class Interval:
    """The mean of scores, their standard deviation and a confidence interval.

    What is unknown (the deviation of one value, the interval of one repeat) is NaN.
    """

    mean: float
    sd: float
    low: float
    high: float
    count: int
    over: Literal["repeats", "folds"] = "repeats"
    """What varies: the seed or, with one seed, the classes that a fold leaves out."""
    models: float = math.nan
    """Standard deviation of single models, each fold of each repeat; NaN of one model.

    Where the next model would lie; the interval is that of the mean, and shrinks with its number.
    """

    @property
    def half(self) -> float | None:
        """The number after ±: half the t-interval; over folds the standard deviation."""
        half = self.sd if self.over == "folds" else (self.high - self.low) / 2
        return None if math.isnan(half) else half

    def as_mapping(self) -> dict[str, Any]:
        """The fields as JSON values: unknown numbers are None, as JSON has no NaN."""
        return {key: None if value != value else value for key, value in asdict(self).items()}


def interval(values: Sequence[float], confidence: float = 0.95) -> Interval:
    """The t-interval ``mean ± t(n - 1) sd / sqrt(n)``, ``sd`` with n - 1; of one value, NaN.

    >>> found = interval([1.0, 2.0, 3.0])
    >>> round(found.mean, 3), round(found.sd, 3), round(found.low, 3), round(found.high, 3)
    (2.0, 1.0, -0.484, 4.484)
    """
    count, mean = len(values), float(np.mean(values))
    if count == 1:
        return Interval(mean, math.nan, math.nan, math.nan, 1)
    sd = float(np.std(values, ddof=1))
    half = float(stdtrit(count - 1, (1 + confidence) / 2)) * sd / count**0.5
    return Interval(mean, sd, mean - half, mean + half, count)


def summarize(repeats: Sequence[Sequence[float]]) -> Interval:
    """The interval of repeats, each given as the scores of its folds' models.

    Several repeats: the t-interval over their means. One repeat of several folds: mean and standard
    deviation (n - 1) of its models, which is not a confidence interval: the models share their seed
    and most of their training classes.

    >>> summarize([[0.5, 0.7], [0.6, 0.8]]).count, summarize([[0.5, 0.6, 0.7]]).count
    (2, 3)
    >>> found = summarize([[0.5, 0.6, 0.7]])
    >>> found.over, round(found.mean, 3), round(found.sd, 3), found.low
    ('folds', 0.6, 0.1, nan)
    """
    models = [score for folds in repeats for score in folds]
    single = float(np.std(models, ddof=1)) if len(models) > 1 else math.nan
    if len(repeats) != 1 or len(repeats[0]) < 2:
        return replace(interval([fmean(folds) for folds in repeats]), models=single)
    return Interval(fmean(models), single, math.nan, math.nan, len(models), "folds", single)
