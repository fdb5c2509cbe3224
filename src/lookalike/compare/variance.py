"""Where the variance of a mean comes from: training runs, test classes, split and search.

One analysis of variance for everything that is said about scores, or differences of scores, by
training run and test class ("Variance Components", Searle, Casella and McCulloch, 1992): the width
of intervals, the smallest difference that a study of some size would tell, and the share of each
source where whole studies of one design were repeated.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from lookalike.compare.statistics import SMALLEST_P

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

POWER = 0.8


@dataclass(frozen=True)
class Variance:
    """The variance of scores that are crossed: every training run is tested on every class.

    Attributes:
        runs: Variance of the means of training runs; None with one run.
        classes: Variance of the means of classes, each weighted by its queries: that of a ratio, of
            the sum of scores to the number of queries.
        both: The part that differs by run *and* class; with one run it is inside ``classes``.
        n_runs: How many training runs.
        n_classes: How many classes.
    """

    runs: float | None
    classes: float
    both: float
    n_runs: int
    n_classes: int

    @staticmethod
    def of(scores: Floats, queries: Ints) -> "Variance":
        """The analysis of ``scores[run, class]``; ``queries`` of a class are its weight."""
        n_runs, n_classes = scores.shape
        weights = queries / queries.mean()
        values = weights * (scores - np.average(scores.mean(axis=0), weights=queries))
        of_class = values.mean(axis=0)
        classes = float((of_class**2).sum() / (n_classes - 1))
        if n_runs == 1:
            return Variance(None, classes, 0.0, 1, n_classes)
        of_run = values.mean(axis=1)
        rest = values - of_run[:, None] - of_class + values.mean()
        both = float((rest**2).sum() / (n_runs - 1) / (n_classes - 1))
        return Variance(float(of_run.var(ddof=1)), classes, both, n_runs, n_classes)

    @property
    def over_runs(self) -> float:
        """Squared standard error of the mean over training runs; 0 with one run."""
        return (self.runs or 0.0) / self.n_runs

    @property
    def over_classes(self) -> float:
        """Squared standard error of the mean over classes."""
        return self.classes / self.n_classes

    @property
    def of_mean(self) -> float:
        """Over runs and classes. What varies by run *and* class counts in both terms."""
        return self.over_runs + self.over_classes

    @property
    def share(self) -> float:
        """The part of training runs in the variance of the mean, from 0 to 1."""
        return self.over_runs / self.of_mean if self.of_mean else 0.0

    def quantile(self, level: float) -> float:
        """Of t = mean / sqrt(variance): those of both sources, weighted by their variances.

        Cochran and Cox (1950). Welch's degrees of freedom would be too many where a few training
        runs agree by chance.
        """
        by_classes = float(stats.t.ppf(level, self.n_classes - 1))
        if self.runs is None:
            return by_classes
        by_runs = float(stats.t.ppf(level, self.n_runs - 1))
        return self.share * by_runs + (1 - self.share) * by_classes

    def p(self, mean: float) -> float:
        """Two-sided, weighted like ``quantile``; t is the square root of Clark's min F' (1973).

        Not below the p over training runs alone: with two or three of them that is the safer test.
        """
        by_classes = t_test(mean, self.of_mean, self.n_classes - 1)
        if self.runs is None:
            return by_classes
        by_runs = t_test(mean, self.of_mean, self.n_runs - 1)
        both = self.share * by_runs + (1 - self.share) * by_classes
        return max(both, t_test(mean, self.over_runs, self.n_runs - 1))


def t_test(mean: float, variance: float, freedom: float) -> float:
    """The two-sided p of a mean whose squared standard error is ``variance``."""
    if variance == 0:
        return 1.0 if mean == 0 else SMALLEST_P
    return max(float(2 * stats.t.sf(abs(mean) / variance**0.5, freedom)), SMALLEST_P)


def detectable(
    variances: Sequence[Variance],
    n_runs: ArrayLike,
    n_classes: ArrayLike,
    pairs: int = 1,
    confidence: float = 0.95,
    power: float = POWER,
) -> Floats:
    """The smallest true difference that a study would call better with probability ``power``.

    By the rule of :class:`lookalike.compare.uncertainty.Difference`, at the level of the first of
    ``pairs`` tests after Holm's correction. How many classes *one* difference would take is not
    said: that is a function of its p-value, and as uncertain (Hoenig and Heisey, "The abuse of
    power", 2001).

    Args:
        variances: Of some differences; the median of each source counts.
        n_runs: Training runs of each method in that study.
        n_classes: Its test classes.
        pairs: How many differences are tested.
        confidence: The level of its intervals.
        power: The probability.
    """
    runs_then, classes_then = np.asarray(n_runs, float), np.asarray(n_classes, float)
    both = median(one.both for one in variances)
    of_classes = median(max(0.0, one.classes - one.both / one.n_runs) for one in variances)
    of_runs = [
        max(0.0, one.runs - one.both / one.n_classes) for one in variances if one.runs is not None
    ]

    def standard_errors(count: Floats) -> Floats:
        """How many of them a true difference must have, over so many runs or classes."""
        level = 1 - (1 - confidence) / 2 / pairs
        return np.asarray(stats.t.ppf(level, count - 1) + stats.t.ppf(power, count - 1))

    over_classes = (of_classes + both / runs_then) / classes_then
    by_classes = standard_errors(classes_then)
    if not of_runs:
        return np.asarray(by_classes * np.sqrt(over_classes))
    over_runs = (median(of_runs) + both / classes_then) / runs_then
    by_runs = standard_errors(runs_then)
    variance = over_runs + over_classes
    share = over_runs / np.where(variance > 0, variance, 1.0)
    weighted = (share * by_runs + (1 - share) * by_classes) * np.sqrt(variance)
    return np.asarray(np.maximum(weighted, by_runs * np.sqrt(over_runs)))


@dataclass(frozen=True)
class Sources:
    """The variance of one study's mean, by source.

    Attributes:
        classes: Which classes are in the test set.
        runs: The training runs of the study.
        studies: Its split and its search.
    """

    classes: float
    runs: float
    studies: float

    @staticmethod
    def of(scores: Floats, queries: Ints) -> "Sources":
        """Of ``scores[study, run, class]``; runs are nested in studies, classes crossed with both.

        Components below zero are taken for zero. What varies by class *and* by another source
        counts as the other source. With one run in a study, its part is in that of split and
        search.
        """
        n_studies, n_runs, n_classes = scores.shape
        between = Variance.of(scores.mean(axis=1), queries)
        within = [Variance.of(study, queries) for study in scores]
        run_class = fmean(one.both for one in within)
        run = max(0.0, fmean(one.runs or 0.0 for one in within) - run_class / n_classes)
        study_class = max(0.0, between.both - run_class / n_runs)
        runs = run / n_runs + run_class / n_runs / n_classes
        study = max(0.0, (between.runs or 0.0) - runs - study_class / n_classes)
        in_class = (study_class + run_class / n_runs) / n_studies
        classes = max(0.0, between.classes - in_class) / n_classes
        return Sources(classes, runs, study + study_class / n_classes)


def shares_sentence(sources: Sequence[Sources], what: str) -> str:
    """The share of each source in the mean variance, in one sentence.

    >>> shares_sentence([Sources(6e-5, 1e-5, 3e-5)], "a score")  # doctest: +ELLIPSIS
    'Of the variance of a score of one study: 60 % test classes, 10 % training runs, ...'
    """
    parts = {
        "test classes": fmean(one.classes for one in sources),
        "training runs": fmean(one.runs for one in sources),
        "split and search": fmean(one.studies for one in sources),
    }
    total = sum(parts.values())
    words = ", ".join(f"{100 * part / (total or 1):.0f} % {name}" for name, part in parts.items())
    error = 100 * total**0.5
    return f"Of the variance of {what} of one study: {words} (standard error {error:.2f} points)."
