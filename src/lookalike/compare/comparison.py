"""Comparing methods: intervals, the audit, a ranking where it is fair, and significant claims."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from lookalike.compare.audit import Audit, audit, listed
from lookalike.compare.contenders import (
    MethodResult,
    ResultSet,
    class_bounds,
    sample_of,
    sources,
)
from lookalike.compare.statistics import (
    Friedman,
    Standing,
    critical_difference,
    friedman,
    groups_without,
    tournament,
)
from lookalike.compare.uncertainty import Bounds, Difference, Sample, Scope, differences
from lookalike.compare.variance import Variance, shares_sentence
from lookalike.errors import BadInput, did_you_mean
from lookalike.evaluation.metrics import more_is_better
from lookalike.study.results import Which

ENOUGH_DATASETS = 6
"""With fewer, a test over data sets cannot reach 5 %: its least p is 2 / 2^n."""
PAIRWISE = "the rule for pairs: over training runs and test classes, corrected for all pairs"
NEMENYI = "Nemenyi's test over data sets at 5 %"

Ranking = Literal["fair", "refused", "anyway"]


@dataclass(frozen=True)
class Tournament:
    """Average ranks over blocks, and which methods cannot be told apart.

    Over six data sets or more, Friedman's and Nemenyi's tests say so (Demšar, JMLR 2006). Over test
    classes they would not: classes of one training run share what that run did by chance, and the
    tests would find differences between seeds of one method. There the rule for pairs decides.
    """

    standings: tuple[Standing, ...]
    friedman: Friedman | None
    """Over data sets only."""
    distance: float | None
    """Nemenyi's critical difference; None where the blocks are no data sets."""
    groups: tuple[tuple[str, ...], ...]
    """Neighbours in rank of which no two can be told apart, best first."""
    rule: str
    """What decides the groups; empty where nothing does."""
    blocks: int
    about: str
    """A description of the blocks."""
    cells: tuple[str, ...] = ()
    """The names of the blocks, where they are cells: data sets at values of axes."""


@dataclass(frozen=True)
class OnDataset:
    """The comparison on one data set, at one value of every axis where there are any.

    ``contenders`` are in order of score where ranked.
    """

    dataset: str
    label: str
    """The data set and the values of axes."""
    axes: Mapping[str, str]
    contenders: tuple[MethodResult, ...]
    audit: Audit
    ranking: Ranking
    differences: tuple[Difference, ...]
    sample: Sample
    """The scores that the differences come from, by training run and test class."""
    bounds: Mapping[str, Bounds]
    """By method: the interval of its score over training runs x test classes, where known."""
    metric: str = "map@r"
    """What ranks, and what the differences are of."""

    @property
    def trained(self) -> tuple[MethodResult, ...]:
        """The methods that were trained."""
        return tuple(one for one in self.contenders if not one.baseline)

    @property
    def baselines(self) -> tuple[MethodResult, ...]:
        """The methods that were not trained."""
        return tuple(one for one in self.contenders if one.baseline)

    @property
    def trainings(self) -> int:
        """The number of training runs of each method that are compared."""
        return self.sample.trainings

    @property
    def classes(self) -> int:
        """The number of test classes; 0 where scores per class were not kept."""
        return self.sample.classes

    @property
    def studies(self) -> int:
        """How many whole studies are the repeats; 1: repeats are those of one study."""
        return max((one.studies for one in self.contenders), default=1)

    @property
    def basis(self) -> str:
        """What the differences are based on, and for what they hold."""
        return f"{self._intervals} {self.validity}"

    @property
    def _intervals(self) -> str:
        times = f"{self.trainings} training run{'s' * (self.trainings != 1)} of each method"
        if self.studies > 1:
            times = f"{self.trainings} whole studies"
        if not self.classes:
            return (
                f"Intervals are over {times}: scores per test class were not kept, so nothing can "
                "be said about other classes."
            )
        if self.trainings == 1:
            return (
                f"Intervals are over the {self.classes:,} test classes alone: with one training "
                "run of each method, another one may change the order."
            )
        return f"Intervals are over {times} and {self.classes:,} test classes, crossed."

    @property
    def validity(self) -> str:
        """For which split and settings every verdict holds, in one sentence."""
        if self.studies > 1:
            return (
                "Each study has its own split, search and training runs, so a verdict holds for "
                "others of the same design."
            )
        searched = any(row.tuned for one in self.contenders for row in one.rows)
        settings = "these searched settings" if searched else "these settings"
        return (
            f"Every verdict holds for this split of the classes and {settings}; another split or "
            "search may change it."
        )

    @property
    def readings(self) -> str:
        """For how many choices of settings the test set was read, in one sentence."""
        counts = {one.name: one.rows[0].times_read for one in self.trained if one.rows}
        if not counts:
            return ""
        several = [f"{count} times for {name}" for name, count in counts.items() if count > 1]
        if not several:
            return "The test set was read for one choice of settings of every method."
        return f"The test set was read {listed(several)}: the last choice knew test scores."

    @property
    def shares(self) -> tuple[str, ...]:
        """Of several whole studies: where the variance of one comes from, in sentences."""
        scores, gaps = sources(self.trained, self.metric)
        named = ((scores, "a score"), (gaps, "a difference of two methods"))
        return tuple(shares_sentence(found, what) for found, what in named if found)

    @property
    def variances(self) -> tuple[Variance, ...]:
        """Of the differences between the best and the other trained methods, where known."""
        tables = self.sample.by_class
        names = {one.name for one in self.trained} & tables.keys()
        return tuple(
            Variance.of(tables[one.better] - tables[one.worse], self.sample.queries)
            for one in self.to_best
            if {one.better, one.worse} <= names and one.over_classes is not None
        )

    @property
    def searched(self) -> str:
        """How many parameters of each method were searched, in one sentence; empty: unknown."""
        rows: dict[int, list[str]] = {}
        for one in self.trained:
            if one.rows:
                rows.setdefault(len(one.rows[0].tuned), []).append(one.name)
        if not any(rows):
            return ""
        parts = (f"{count} ({', '.join(rows[count])})" for count in sorted(rows))
        return f"Searched parameters: {'; '.join(parts)}."

    @property
    def claims(self) -> tuple[str, ...]:
        """What holds for other training runs and other classes: one sentence for each method."""
        return self._sentences("generalizes", "{} is better than {}.")

    @property
    def narrow_claims(self) -> tuple[str, ...]:
        """What holds for this test set only, or for these training runs only."""
        scopes: tuple[Scope, ...] = ("these training runs", "this test set")
        words = "For {} only: {{}} scores higher than {{}}."
        return tuple(
            sentence for scope in scopes for sentence in self._sentences(scope, words.format(scope))
        )

    def _sentences(self, scope: Scope, words: str) -> tuple[str, ...]:
        found = []
        for one in self.contenders:
            beaten = [d for d in self.differences if (d.better, d.scope) == (one.name, scope)]
            if beaten:
                found.append(
                    words.format(one.name, ", ".join(f"{d.worse} ({_points(d)})" for d in beaten))
                )
        return tuple(found)

    @property
    def open(self) -> int:
        """The number of pairs of which nothing can be said."""
        return sum(difference.scope == "open" for difference in self.differences)

    @property
    def no_better_than_baseline(self) -> dict[str, list[str]]:
        """For each baseline: the methods that are not shown to be better."""
        beaten = {(d.better, d.worse) for d in self.differences if d.holds}
        return {
            base.name: [one.name for one in self.trained if (one.name, base.name) not in beaten]
            for base in self.baselines
        }

    @property
    def to_best(self) -> tuple[Difference, ...]:
        """The differences between the best trained method and all others, the smallest first."""
        if not self.trained:
            return ()
        best = self.trained[0].name
        found = [one for one in self.differences if best in (one.better, one.worse)]
        return tuple(sorted(found, key=lambda d: d.mean if d.better == best else -d.mean))


@dataclass(frozen=True)
class Comparison:
    """The comparison of methods by one metric."""

    metric: str
    which: Which
    datasets: tuple[OnDataset, ...]
    tournament: Tournament | None
    """None where ranks are meaningless: unfair rows, or fewer than two blocks or methods."""


def compare(
    gathered: ResultSet, metric: str, which: Which = "separate", *, allow_unfair: bool = False
) -> Comparison:
    """Compare methods on each data set by a metric that all rows have, and over all data sets.

    Rows with axes are compared within a cell, that is at equal values of all axes.
    ``which`` scores the folds' separate models or their concatenated embeddings;
    ``allow_unfair`` ranks even where the rows differ beyond the method.
    """
    known = ranking_metrics(gathered)
    if metric not in known:
        raise BadInput(f"'{metric}' was not measured in every row; {did_you_mean(metric, known)}")
    parts = tuple(_on(cell, gathered, metric, which, allow_unfair) for cell in gathered.cells)
    return Comparison(metric, which, parts, _tournament(parts, metric, which))


def check_concatenated(gathered: ResultSet) -> None:
    """Raise an error if some rows have no score of concatenated embeddings."""
    rows = gathered.contenders
    without = [one.name for one in rows if not (one.concatenated or one.has_one_embedding)]
    if without:
        raise BadInput(
            "--concatenated needs studies with folds, which score the folds' embeddings side by "
            f"side; there is no such score of {listed(without)}"
        )


def ranking_metrics(gathered: ResultSet) -> tuple[str, ...]:
    """The metrics that all rows have and for which higher is better."""
    first, *others = [one.metrics for one in gathered.contenders]
    return tuple(m for m in first if more_is_better(m) and all(m in o for o in others))


def chosen_metric(gathered: ResultSet) -> str:
    """The default metric: the one that selected the study's trials, else MAP@R."""
    known = ranking_metrics(gathered)
    preferred = [*(study.metric for study in gathered.studies), "map@r", "recall@1", *known]
    found = next((metric for metric in preferred if metric in known), None)
    if found is None:
        raise BadInput("the rows have no metric in common that ranks; see protocol.metrics")
    return found


def _on(cell: str, gathered: ResultSet, metric: str, which: Which, allow_unfair: bool) -> OnDataset:
    rows = gathered.of(cell)
    dataset, axes = rows[0].dataset, rows[0].axes
    found = audit([one.experiment for one in rows])
    ranking: Ranking = "fair" if found.fair else "anyway" if allow_unfair else "refused"
    if ranking != "refused":
        rows = tuple(sorted(rows, key=lambda one: (one.baseline, -_mean(one, metric, which))))
    pairs: tuple[Difference, ...] = ()
    sample = sample_of(rows, metric, which)
    if ranking != "refused" and len(rows) > 1 and sample.trainings:
        baselines = [one.name for one in rows if one.baseline]
        pairs = tuple(differences(sample, not_among=baselines))
    bounds = class_bounds(rows, metric, which)
    return OnDataset(dataset, cell, axes, rows, found, ranking, pairs, sample, bounds, metric)


def _mean(one: MethodResult, metric: str, which: Which) -> float:
    found = one.interval(metric, which)
    return -1.0 if found is None else found.mean


def _tournament(parts: Sequence[OnDataset], metric: str, which: Which) -> Tournament | None:
    """Ranks over data sets where there are enough; otherwise over cells, or test classes.

    Never over repeats, which share their test classes and so repeat each other's chance.
    """
    ranked = [part for part in parts if part.ranking != "refused"]
    if not ranked or len(ranked) < len(parts):
        return None
    by_name = [{one.name: one for one in part.trained} for part in ranked]
    names = [name for name in by_name[0] if all(name in rows for rows in by_name)]
    if len(names) < 2:
        return None
    datasets = list(dict.fromkeys(part.dataset for part in ranked))
    of = " and ".join(datasets)
    cells: tuple[str, ...] = ()
    if len(datasets) >= ENOUGH_DATASETS or any(part.axes for part in ranked):
        means = np.array([[_mean(rows[name], metric, which) for name in names] for rows in by_name])
    if len(datasets) >= ENOUGH_DATASETS:
        at = [[i for i, part in enumerate(ranked) if part.dataset == name] for name in datasets]
        scores = np.array([means[rows].mean(axis=0) for rows in at])
        about = f"{len(datasets)} data sets"
    elif any(part.axes for part in ranked):
        scores, cells = means, tuple(part.label for part in ranked)
        varied = " x ".join(dict.fromkeys(axis for part in ranked for axis in part.axes))
        about = (
            f"{len(scores)} cells ({varied}) on {of}; they share test images, so they are not "
            "independent, and the ranks are not tested"
        )
    elif all(name in part.sample.by_class for part in ranked for name in names):
        scores = np.concatenate([_class_scores(part.sample, names) for part in ranked])
        times = {part.trainings for part in ranked}
        unit = "whole studies" if ranked[0].studies > 1 else "training runs"
        several = f"the mean of {max(times)} {unit}" if min(times) > 1 else "one training run"
        about = f"{len(scores):,} test classes of {of}, each by {several} of every method"
    else:
        return None
    if len(scores) < 2:
        return None
    standings = tournament(scores, names)
    order = [one.name for one in standings]
    tested, distance, rule = None, None, ""
    pairs = list(combinations(range(len(order)), 2))
    groups: Sequence[Sequence[int]] = ()
    if len(datasets) >= ENOUGH_DATASETS:
        tested, rule = friedman(scores), NEMENYI
        distance = critical_difference(len(names), len(scores))
        gaps = {(i, j): standings[j].rank - standings[i].rank for i, j in pairs}
        groups = groups_without([pair for pair in pairs if gaps[pair] >= distance], len(order))
    elif len(ranked) == 1 and not cells and ranked[0].trainings > 1:
        told = {frozenset((d.better, d.worse)) for d in ranked[0].differences if d.holds}
        apart = [(i, j) for i, j in pairs if {order[i], order[j]} in told]
        groups, rule = groups_without(apart, len(order)), PAIRWISE
    return Tournament(
        standings=tuple(standings),
        friedman=tested,
        distance=distance,
        groups=tuple(tuple(order[at] for at in group) for group in groups),
        rule=rule,
        blocks=len(scores),
        about=about,
        cells=cells,
    )


def _class_scores(sample: Sample, names: Sequence[str]) -> NDArray[np.float64]:
    """Scores by test class and method, the mean over training runs."""
    return np.stack([sample.by_class[name].mean(axis=0) for name in names], axis=1)


def _points(one: Difference) -> str:
    """The difference in points, with the interval that its scope stands for."""
    narrow = one.scope == "this test set"
    bounds = one.over_trainings if narrow else one.over_classes
    shown = "" if bounds is None else f", {100 * bounds.low:.1f} to {100 * bounds.high:.1f}"
    return f"by {100 * one.mean:.1f} points{shown}"
