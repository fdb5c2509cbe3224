"""Ranks of methods over blocks, and tests of them.

Everything reads ``scores[block, method]``: one row for each data set, or for each test class of one
data set, one column for each method. Higher is better. Repeats on the same classes are not blocks:
they share what the classes have in common. The tests are for data sets: test classes share the luck
of a training run, so over them ranks are shown and not tested.
"""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from lookalike.errors import BadInput

Floats = NDArray[np.float64]
SMALLEST_P = 1e-16
"""No p is 0: no number of observations rules chance out."""


@dataclass(frozen=True)
class Standing:
    """The ranks of a method in a tournament, 1 for the best, one for each block."""

    name: str
    ranks: tuple[float, ...]

    @property
    def rank(self) -> float:
        """The average rank."""
        return fmean(self.ranks)

    @property
    def deviation(self) -> float | None:
        """The standard deviation over blocks; None of one block."""
        return stdev(self.ranks) if len(self.ranks) > 1 else None

    @property
    def total(self) -> float:
        """The sum of its ranks."""
        return sum(self.ranks)


@dataclass(frozen=True)
class Friedman:
    """Whether any method differs: chi-squared, and the more powerful F of Iman and Davenport."""

    statistic: float
    p: float
    f_statistic: float
    f_p: float
    blocks: int
    methods: int


def ranks(scores: ArrayLike) -> Floats:
    """The rank of each method in each block, 1 for the highest score; ties share their mean."""
    found: Floats = stats.rankdata(-_checked(scores), axis=1)
    return found


def tournament(scores: ArrayLike, names: Sequence[str]) -> list[Standing]:
    """The ranks of each method over blocks, the best first."""
    columns = ranks(scores).T.tolist()
    if len(names) != len(columns) or len(set(names)) != len(names):
        raise BadInput(
            f"{len(columns)} methods need as many different names, not {len(set(names))}"
        )
    found = [Standing(name, tuple(own)) for name, own in zip(names, columns, strict=True)]
    return sorted(found, key=lambda standing: standing.rank)


def friedman(scores: ArrayLike) -> Friedman | None:
    """Friedman's test with ties, and the F of Iman and Davenport (Demšar, JMLR 2006).

    None where it is undefined: fewer than three methods or two blocks, or all scores equal.
    """
    given = _checked(scores)
    blocks, methods = given.shape
    if methods < 3 or blocks < 2 or bool((given == given[:, :1]).all()):
        return None
    statistic, p = map(float, stats.friedmanchisquare(*given.T))
    p = max(p, SMALLEST_P)
    left = blocks * (methods - 1) - statistic
    if left <= 1e-9:  # every block ranks alike
        return Friedman(statistic, p, float("inf"), SMALLEST_P, blocks, methods)
    f_statistic = (blocks - 1) * statistic / left
    f_p = float(stats.f.sf(f_statistic, methods - 1, (methods - 1) * (blocks - 1)))
    return Friedman(statistic, p, f_statistic, max(f_p, SMALLEST_P), blocks, methods)


def critical_difference(methods: int, blocks: int, alpha: float = 0.05) -> float:
    """Nemenyi: average ranks further apart than this differ; q_alpha sqrt(k (k + 1) / (6 N)).

    q is the quantile of the studentised range for infinite freedom over sqrt(2) (Demšar, 2006).

    >>> round(critical_difference(methods=4, blocks=14, alpha=0.1), 2)
    1.12
    """
    if methods < 2 or blocks < 1:
        raise BadInput("a critical difference needs at least two methods and one block")
    check_confidence(1 - alpha)
    q = float(stats.studentized_range.ppf(1 - alpha, methods, np.inf)) / math.sqrt(2)
    return q * math.sqrt(methods * (methods + 1) / (6 * blocks))


def groups_without(apart: Collection[tuple[int, int]], count: int) -> list[tuple[int, ...]]:
    """Longest runs of neighbours among ``count`` positions that hold no pair of ``apart``.

    >>> groups_without([(0, 2)], 4)
    [(0, 1), (1, 2, 3)]
    """
    found: list[tuple[int, ...]] = []
    for start in range(count):
        end = min((max(a, b) for a, b in apart if min(a, b) >= start), default=count)
        if end - start > 1 and (not found or end > found[-1][-1] + 1):
            found.append(tuple(range(start, end)))
    return found


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down correction: the chance that any of the accepted claims is wrong stays alpha.

    >>> [round(p, 3) for p in holm([0.01, 0.04, 0.03])]
    [0.03, 0.06, 0.06]
    """
    order = np.argsort(p_values, kind="stable")
    steps = np.asarray(p_values)[order] * np.arange(len(order), 0, -1)
    adjusted = np.empty(len(order))
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(steps))
    return [float(p) for p in adjusted]


def _checked(scores: ArrayLike) -> Floats:
    given = np.asarray(scores, float)
    if given.ndim != 2 or not given.size:
        raise BadInput("scores must be a table of blocks and methods with at least one of each")
    if not np.isfinite(given).all():
        raise BadInput("a score is missing or not a number; every block needs every method")
    return given


def check_confidence(confidence: float) -> None:
    """Refuse a level of confidence that is not between 0 and 1."""
    if not 0 < confidence < 1:
        raise BadInput(f"confidence = {confidence} must lie between 0 and 1, for example 0.95")
