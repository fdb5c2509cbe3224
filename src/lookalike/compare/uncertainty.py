"""Two sources of uncertainty: the training runs (seeds), and which classes are in the test set.

An interval over training runs says how the next run would do on *these* test classes. Whether the
order of methods holds on other classes needs the classes to be resampled too: with replacement, all
queries of a class together, the gallery unchanged, paired between methods, and crossed with the
resampling of training runs (Owen, "The pigeonhole bootstrap", 2007). To take the items of a test
for fixed where they are a sample is the "language-as-fixed-effect fallacy" (Clark, 1973).

A training run is a repeat, the mean of its folds. Scores are ``by_class[run, class]``; the score of
a run is their mean, weighted by the queries of the classes. Higher is better.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Literal

import numpy as np
from scipy import stats

from lookalike.compare.statistics import check_confidence, holm
from lookalike.compare.variance import Floats, Ints, Variance, t_test
from lookalike.errors import BadInput
from lookalike.evaluation.results import draw_again

RESAMPLES = 10_000
NUMBERS_AT_ONCE = 4_000_000
"""Draws of classes that are in memory at the same time."""
FEWEST_CLASSES = 5
"""With fewer, no test over classes can reach 5 %: its least p is 2 / 2^n."""

Scope = Literal["generalizes", "these training runs", "this test set", "open"]
"""What a difference holds for: other training runs and other test classes; other classes, of one
training run each; other training runs, on this test set; ``open``: it may be due to chance."""


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
    """The scores of methods by training run and, where these were kept, by test class.

    Attributes:
        names: The methods.
        totals: Methods x training runs: the score of each run.
        by_class: By name of a method: training runs x classes. Methods without are compared
            by training runs alone.
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
            raise BadInput(
                "a score is missing or not a number; every training run needs every method"
            )
        if any(values.shape != shape for values in self.by_class.values()):
            raise BadInput(
                f"scores per class must be {shape[0]} training runs x {shape[1]} classes"
            )

    @property
    def trainings(self) -> int:
        """The number of training runs of each method."""
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
        over_trainings: t-interval over training runs, for these test classes; None with one run.
        over_classes: Crossed bootstrap over training runs and test classes; with one run over
            classes alone; None where scores per class were not kept.
        p_trainings: Paired t-test over training runs, corrected by Holm over all pairs.
        p: The larger p of two tests: a permutation test over classes (random signs), and a t-test
            whose variance is the sum of that over training runs and that over classes.
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
            return "generalizes" if self.trainings > 1 else "these training runs"
        return "this test set" if self._sure(self.over_trainings, self.p_trainings) else "open"

    def _sure(self, bounds: Bounds | None, p: float | None) -> bool:
        if bounds is None or p is None:
            return False
        return bounds.above_zero and p < 1 - self.confidence

    @property
    def holds(self) -> bool:
        """Whether "``better`` is better" may be said: for other training runs and other classes."""
        return self.scope == "generalizes"


def resampled_scores(
    tables: Floats, queries: Ints, resamples: int = RESAMPLES, seed: int = 0
) -> Floats:
    """Scores of ``tables[method, run, class]`` in bootstrap samples: [resample, method].

    Training runs and classes are drawn independently of each other, the same for all methods. Of n,
    n - 1 are drawn, so that the variance of few is not underestimated (Rao and Wu, 1988).
    """
    methods, trainings, classes = tables.shape
    random = np.random.default_rng(seed)
    flat = tables.reshape(methods * trainings, classes).T
    found = np.empty((resamples, methods))
    step = max(1, NUMBERS_AT_ONCE // classes)
    for start in range(0, resamples, step):
        count = min(step, resamples - start)
        weights = draw_again(random, count, classes) * queries
        means = (weights @ flat).reshape(count, methods, trainings)
        means /= weights.sum(axis=1)[:, None, None]
        chosen = draw_again(random, count, trainings) / max(trainings - 1, 1)
        found[start : start + count] = np.einsum("bmr,br->bm", means, chosen)
    return found


def class_intervals(
    by_class: Mapping[str, Floats],
    queries: Ints,
    confidence: float = 0.95,
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> dict[str, Bounds]:
    """The interval of each method's score over training runs x classes, by name.

    Args:
        by_class: By name of a method: training runs x classes, as many of each for all.
        queries: The queries of each class.
        confidence: The level.
        resamples: Bootstrap samples.
        seed: Of these.
    """
    check_confidence(confidence)
    if not by_class or len(queries) < FEWEST_CLASSES:
        return {}
    drawn = resampled_scores(np.stack(list(by_class.values())), queries, resamples, seed)
    return {
        name: _bounds(drawn[:, at], values, queries, confidence)
        for at, (name, values) in enumerate(by_class.items())
    }


def _bounds(drawn: Floats, values: Floats, queries: Ints, confidence: float) -> Bounds:
    """The percentile interval, stretched about the mean where few runs make t wider than z."""
    mean = _mean(values, queries)
    tail = (1 - confidence) / 2
    low, high = np.quantile(drawn, (tail, 1 - tail))
    stretch = Variance.of(values, queries).quantile(1 - tail) / float(stats.norm.ppf(1 - tail))
    return Bounds(mean - stretch * (mean - float(low)), mean + stretch * (float(high) - mean))


def _mean(values: Floats, queries: Ints) -> float:
    """The mean of ``values[run, class]`` over all queries."""
    return float(np.average(values.mean(axis=0), weights=queries))


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
    score = dict(zip(sample.names, sample.totals, strict=True))
    pairs = [
        (a, b) if score[a].mean() >= score[b].mean() else (b, a)
        for a, b in combinations(sample.names, 2)
        if not {a, b} <= set(not_among)
    ]
    found = [_over_runs(a, b, score[a] - score[b], confidence) for a, b in pairs]
    tested = [one.p_trainings for one in found if one.p_trainings is not None]
    if tested:  # more than one training run
        found = [replace(one, p_trainings=p) for one, p in zip(found, holm(tested), strict=True)]
    found = _over_classes(sample, found, resamples, seed)
    return sorted(found, key=lambda one: -one.mean)


def _over_runs(better: str, worse: str, gap: Floats, confidence: float) -> Difference:
    """The t-interval of the mean over training runs, and the p of the paired t-test."""
    count, mean = len(gap), float(gap.mean())
    bounds, p = None, None
    if count > 1:
        variance = float(gap.var(ddof=1) / count)
        half = float(stats.t.ppf((1 + confidence) / 2, count - 1)) * variance**0.5
        bounds, p = Bounds(mean - half, mean + half), t_test(mean, variance, count - 1)
    return Difference(
        better=better,
        worse=worse,
        mean=mean,
        over_trainings=bounds,
        over_classes=None,
        p_trainings=p,
        p=None,
        adjusted=None,
        share=None,
        trainings=count,
        classes=0,
        confidence=confidence,
    )


def _over_classes(
    sample: Sample, pairs: list[Difference], resamples: int, seed: int
) -> list[Difference]:
    """The pairs with what training runs and classes together say of those with both tables."""
    known = [one for one in pairs if {one.better, one.worse} <= sample.by_class.keys()]
    if not known or sample.classes < FEWEST_CLASSES:
        return pairs
    queries = sample.queries
    drawn = resampled_scores(np.stack(list(sample.by_class.values())), queries, resamples, seed)
    scores = dict(zip(sample.by_class, drawn.T, strict=True))
    gaps = [sample.by_class[one.better] - sample.by_class[one.worse] for one in known]
    permuted = sign_flip_tests(np.stack([gap.mean(axis=0) for gap in gaps]), queries, seed=seed)
    p_values = [
        max(p, Variance.of(gap, queries).p(_mean(gap, queries)))
        for p, gap in zip(permuted, gaps, strict=True)
    ]
    tested = {}
    for one, gap, p, adjusted in zip(known, gaps, p_values, holm(p_values), strict=True):
        resampled = scores[one.better] - scores[one.worse]
        tested[one.better, one.worse] = replace(
            one,
            over_classes=_bounds(resampled, gap, queries, one.confidence),
            p=p,
            adjusted=adjusted,
            share=float((resampled > 0).mean() + (resampled == 0).mean() / 2),
            classes=sample.classes,
        )
    return [tested.get((one.better, one.worse), one) for one in pairs]


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
