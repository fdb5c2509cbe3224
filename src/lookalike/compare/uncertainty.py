"""Two sources of uncertainty: the trainings (seeds), and which classes are in the test set.

An interval over trainings says how the next training would do on *these* test classes. Whether the
order of methods holds on other classes needs the classes to be resampled too: with replacement, all
queries of a class together, the gallery unchanged, paired between methods, and crossed with the
resampling of trainings (Owen, "The pigeonhole bootstrap", 2007). To take the items of a test for
fixed where they are a sample is the "language-as-fixed-effect fallacy" (Clark, 1973).

A training is a repeat, the mean of its folds. Scores are ``by_class[training, class]``; the score
of a training is their mean, weighted by the queries of the classes. Higher is better.
"""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from lookalike.compare.statistics import SMALLEST_P, check_confidence, holm
from lookalike.errors import BadInput

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

RESAMPLES = 10_000
NUMBERS_AT_ONCE = 4_000_000
"""Draws of classes that are in memory at the same time."""
FEWEST_CLASSES = 5
"""With fewer, no test over classes can reach 5 %: its least p is 2 / 2^n."""

Scope = Literal["other classes", "these trainings", "these classes", "open"]
"""What a difference holds for; ``open``: it may be due to chance."""


@dataclass(frozen=True)
class Bounds:
    """An interval."""

    low: float
    high: float

    @property
    def above_zero(self) -> bool:
        """Whether it excludes zero and everything below."""
        return self.low > 0


@dataclass(frozen=True)
class Sample:
    """The scores of methods by training and, where these were kept, by test class.

    Attributes:
        names: The methods.
        totals: Methods x trainings: the score of each training.
        by_class: By name of a method: trainings x classes. Methods without are compared by
            trainings alone.
        queries: The queries of each class, which are its weight.
    """

    names: tuple[str, ...]
    totals: Floats
    by_class: Mapping[str, Floats]
    queries: Ints

    def __post_init__(self) -> None:
        if len(set(self.names)) != len(self.names) or len(self.names) != len(self.totals):
            raise BadInput("every method needs a name of its own and a row of scores")
        shape = (self.totals.shape[1], len(self.queries))
        if not np.isfinite(self.totals).all():
            raise BadInput("a score is missing or not a number; every training needs every method")
        if any(values.shape != shape for values in self.by_class.values()):
            raise BadInput(f"scores per class must be {shape[0]} trainings x {shape[1]} classes")

    @property
    def trainings(self) -> int:
        """The number of trainings of each method."""
        return int(self.totals.shape[1])

    @property
    def classes(self) -> int:
        """The number of test classes; 0 where scores per class were not kept."""
        return len(self.queries) if self.by_class else 0


@dataclass(frozen=True)
class Difference:
    """``better`` minus ``worse``, with both intervals.

    Attributes:
        better: The method with the higher mean.
        worse: The other.
        mean: The difference of their scores.
        over_trainings: t-interval over trainings, for these test classes; None with one training.
        over_classes: Crossed bootstrap over trainings and test classes; with one training over
            classes alone; None where scores per class were not kept.
        p_trainings: Paired t-test over trainings, corrected by Holm over all pairs.
        p: The larger p of two tests: a permutation test over classes (random signs), and a t-test
            whose variance is the sum of that over trainings and that over classes.
        adjusted: ``p`` corrected by Holm over all pairs.
        share: The share of bootstrap samples in which ``better`` scores higher.
        trainings: How many there are of each.
        classes: How many test classes.
        confidence: The level of the intervals.
    """

    better: str
    worse: str
    mean: float
    over_trainings: Bounds | None
    over_classes: Bounds | None
    p_trainings: float | None
    p: float | None
    adjusted: float | None
    share: float | None
    trainings: int
    classes: int
    confidence: float

    @property
    def scope(self) -> Scope:
        """What may be said: the interval excludes zero and the corrected test agrees."""
        if self._sure(self.over_classes, self.adjusted):
            return "other classes" if self.trainings > 1 else "these trainings"
        return "these classes" if self._sure(self.over_trainings, self.p_trainings) else "open"

    def _sure(self, bounds: Bounds | None, p: float | None) -> bool:
        if bounds is None or p is None:
            return False
        return bounds.above_zero and p < 1 - self.confidence

    @property
    def holds(self) -> bool:
        """Whether "``better`` is better" may be said: for other trainings and other classes."""
        return self.scope == "other classes"


@dataclass(frozen=True)
class Spread:
    """Where the variance of a difference (or of a score) comes from.

    Attributes:
        trainings: Squared standard error over trainings; None with one training.
        classes: Squared standard error over test classes.
        training_count: How many trainings.
        class_count: How many classes.
    """

    trainings: float | None
    classes: float
    training_count: int
    class_count: int

    @property
    def variance(self) -> float:
        """Of the mean, over both. What varies by training *and* class counts in both terms."""
        return (self.trainings or 0.0) + self.classes

    @property
    def share(self) -> float:
        """The part of the variance that is over trainings, from 0 to 1."""
        return (self.trainings or 0.0) / self.variance if self.variance else 0.0

    def quantile(self, level: float) -> float:
        """Of t = mean / sqrt(variance): those of both sources, weighted by their variances.

        Cochran and Cox (1950). Welch's degrees of freedom would be too many where a few trainings
        agree by chance.
        """
        over_classes = float(stats.t.ppf(level, self.class_count - 1))
        if self.trainings is None:
            return over_classes
        over_trainings = float(stats.t.ppf(level, self.training_count - 1))
        return self.share * over_trainings + (1 - self.share) * over_classes

    def p(self, mean: float) -> float:
        """Two-sided, weighted like ``quantile``; t is the square root of Clark's min F' (1973).

        Not below the p over trainings alone: with two or three of them that is the safer test.
        """
        over_classes = _p_of(mean, self.variance, self.class_count - 1)
        if self.trainings is None:
            return over_classes
        over_trainings = _p_of(mean, self.variance, self.training_count - 1)
        both = self.share * over_trainings + (1 - self.share) * over_classes
        return max(both, _p_of(mean, self.trainings, self.training_count - 1))


def spread_of(by_class: Floats, queries: Ints) -> Spread:
    """The variance of the weighted mean of ``by_class`` over trainings and over classes.

    Over classes it is that of a ratio: of the sum of scores to the number of queries.
    """
    trainings, classes = by_class.shape
    weights = queries / queries.mean()
    of_class = by_class.mean(axis=0)
    deviations = weights * (of_class - np.average(of_class, weights=queries))
    over_classes = float((deviations**2).sum() / (classes - 1) / classes)
    if trainings == 1:
        return Spread(None, over_classes, 1, classes)
    of_training = (by_class * weights).mean(axis=1)
    over_trainings = float(of_training.var(ddof=1) / trainings)
    return Spread(over_trainings, over_classes, trainings, classes)


def resampled_scores(
    tables: Floats, queries: Ints, resamples: int = RESAMPLES, seed: int = 0
) -> Floats:
    """Scores of ``tables[method, training, class]`` in bootstrap samples: [resample, method].

    Trainings and classes are drawn independently of each other, the same for all methods. Of n,
    n - 1 are drawn, so that the variance of few is not underestimated (Rao and Wu, 1988).
    """
    methods, trainings, classes = tables.shape
    random = np.random.default_rng(seed)
    flat = tables.reshape(methods * trainings, classes).T
    found = np.empty((resamples, methods))
    step = max(1, NUMBERS_AT_ONCE // classes)
    for start in range(0, resamples, step):
        count = min(step, resamples - start)
        weights = _draws(random, count, classes) * queries
        means = (weights @ flat).reshape(count, methods, trainings)
        means /= weights.sum(axis=1)[:, None, None]
        chosen = _draws(random, count, trainings) / max(trainings - 1, 1)
        found[start : start + count] = np.einsum("bmr,br->bm", means, chosen)
    return found


def _draws(random: np.random.Generator, count: int, number: int) -> Floats:
    """How often each of ``number`` is among number - 1 draws (one of one), ``count`` times."""
    drawn = random.integers(0, number, (count, max(number - 1, 1)))
    drawn += np.arange(count)[:, None] * number
    found = np.bincount(drawn.ravel(), minlength=count * number).reshape(count, number)
    return found.astype(np.float64)


def class_intervals(
    sample: Sample, confidence: float = 0.95, *, resamples: int = RESAMPLES, seed: int = 0
) -> dict[str, Bounds]:
    """The interval of each method's score over trainings x classes, by name."""
    check_confidence(confidence)
    if sample.classes < FEWEST_CLASSES:
        return {}
    names = list(sample.by_class)
    tables = np.stack([sample.by_class[name] for name in names])
    drawn = resampled_scores(tables, sample.queries, resamples, seed)
    return {
        name: _bounds(
            drawn[:, at],
            float(np.average(tables[at].mean(axis=0), weights=sample.queries)),
            spread_of(tables[at], sample.queries),
            confidence,
        )
        for at, name in enumerate(names)
    }


def _bounds(drawn: Floats, mean: float, spread: Spread, confidence: float) -> Bounds:
    """The percentile interval, stretched about the mean where few trainings make t wider than z."""
    tail = (1 - confidence) / 2
    low, high = np.quantile(drawn, (tail, 1 - tail))
    stretch = spread.quantile(1 - tail) / float(stats.norm.ppf(1 - tail))
    return Bounds(mean - stretch * (mean - float(low)), mean + stretch * (float(high) - mean))


def differences(
    sample: Sample,
    confidence: float = 0.95,
    *,
    not_among: Collection[str] = (),
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> list[Difference]:
    """Every pair of methods: the difference with both intervals and corrected tests.

    The larger difference comes first. Names in ``not_among`` are compared with others, not with
    each other.
    """
    check_confidence(confidence)
    means = sample.totals.mean(axis=1)
    pairs = [
        (a, b) if means[a] >= means[b] else (b, a)
        for a, b in combinations(range(len(sample.names)), 2)
        if not {sample.names[a], sample.names[b]} <= set(not_among)
    ]
    crossed = _crossed(sample, pairs, confidence, resamples, seed)
    gaps = [sample.totals[a] - sample.totals[b] for a, b in pairs]
    of_trainings = [_over_trainings(gap, confidence) for gap in gaps]
    tested = [p for _, p in of_trainings if p is not None]
    corrected = iter(holm(tested) if tested else [])
    found = []
    for (a, b), gap, (bounds, p) in zip(pairs, gaps, of_trainings, strict=True):
        over = crossed.get((a, b))
        found.append(
            Difference(
                better=sample.names[a],
                worse=sample.names[b],
                mean=float(gap.mean()),
                over_trainings=bounds,
                over_classes=over.bounds if over else None,
                p_trainings=None if p is None else next(corrected),
                p=over.p if over else None,
                adjusted=over.adjusted if over else None,
                share=over.share if over else None,
                trainings=sample.trainings,
                classes=sample.classes if over else 0,
                confidence=confidence,
            )
        )
    return sorted(found, key=lambda one: -one.mean)


@dataclass(frozen=True)
class _Crossed:
    bounds: Bounds
    p: float
    adjusted: float
    share: float


def _crossed(
    sample: Sample,
    pairs: list[tuple[int, int]],
    confidence: float,
    resamples: int,
    seed: int,
) -> dict[tuple[int, int], _Crossed]:
    """What trainings and classes together say of each pair that has scores per class."""
    place = {sample.names.index(name): at for at, name in enumerate(sample.by_class)}
    known = [pair for pair in pairs if pair[0] in place and pair[1] in place]
    if not known or sample.classes < FEWEST_CLASSES:
        return {}
    tables = np.stack(list(sample.by_class.values()))
    drawn = resampled_scores(tables, sample.queries, resamples, seed)
    gaps = np.stack([tables[place[a]] - tables[place[b]] for a, b in known])
    permuted = sign_flip_tests(gaps.mean(axis=1), sample.queries, seed=seed)
    spreads = [spread_of(gap, sample.queries) for gap in gaps]
    means = [float(np.average(gap.mean(axis=0), weights=sample.queries)) for gap in gaps]
    tested = zip(permuted, spreads, means, strict=True)
    p_values = [max(p, spread.p(mean)) for p, spread, mean in tested]
    found = {}
    for (a, b), mean, spread, p, adjusted in zip(
        known, means, spreads, p_values, holm(p_values), strict=True
    ):
        gap = drawn[:, place[a]] - drawn[:, place[b]]
        share = float((gap > 0).mean() + (gap == 0).mean() / 2)
        found[a, b] = _Crossed(_bounds(gap, mean, spread, confidence), p, adjusted, share)
    return found


def sign_flip_tests(
    of_class: Floats, queries: Ints, *, permutations: int | None = None, seed: int = 0
) -> list[float]:
    """Two-sided permutation tests that the weighted mean over classes is zero, one for each row.

    If neither of two methods is better, the difference of each class may as well have the other
    sign: p is the share of random signs whose mean is as far from zero as the one that was seen.
    ``permutations`` are by default enough for Holm's correction to reach 2.5 % over all rows.
    """
    rows, classes = of_class.shape
    count = permutations or max(RESAMPLES, 40 * rows)
    weighted = of_class * (queries / queries.sum())
    seen = np.abs(weighted.sum(axis=1)) * (1 - 1e-9)  # equal sums differ in rounding
    random = np.random.default_rng(seed)
    beyond = np.zeros(rows, np.int64)
    step = max(1, NUMBERS_AT_ONCE // classes)
    for start in range(0, count, step):
        signs = random.integers(0, 2, (min(step, count - start), classes), np.int8) * 2.0 - 1.0
        beyond += (np.abs(signs @ weighted.T) >= seen).sum(axis=0)
    return [float(p) for p in (beyond + 1) / (count + 1)]


def _over_trainings(gap: Floats, confidence: float) -> tuple[Bounds | None, float | None]:
    """The t-interval of the mean over trainings, and the p of the paired t-test."""
    count = len(gap)
    if count == 1:
        return None, None
    mean, variance = float(gap.mean()), float(gap.var(ddof=1) / count)
    half = float(stats.t.ppf((1 + confidence) / 2, count - 1)) * math.sqrt(variance)
    return Bounds(mean - half, mean + half), _p_of(mean, variance, count - 1)


def _p_of(mean: float, variance: float, freedom: float) -> float:
    if variance == 0:
        return 1.0 if mean == 0 else SMALLEST_P
    return max(float(2 * stats.t.sf(abs(mean) / math.sqrt(variance), freedom)), SMALLEST_P)
