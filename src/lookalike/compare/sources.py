"""Where the variance of a study's numbers comes from: classes, training runs, split and search.

Several whole studies of one design tell the three apart. A score is ``y[study, run, class]``; runs
are nested in studies, classes are crossed with both. The components are those of an analysis of
variance (Searle, Casella and McCulloch, "Variance Components", 1992), below zero taken for zero.
What varies by class *and* by another source counts as the other source. With one run in a study,
its part is in that of split and search.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean

import numpy as np

from lookalike.compare.contenders import MethodResult
from lookalike.compare.uncertainty import Floats, Ints
from lookalike.evaluation.class_table import ClassTable


@dataclass(frozen=True)
class Sources:
    """The variance of one study's mean, by source.

    Attributes:
        classes: Which classes are in the test set.
        trainings: The training runs of the study.
        studies: Its split and its search.
    """

    classes: float
    trainings: float
    studies: float

    @staticmethod
    def of(values: Floats, queries: Ints) -> "Sources":
        """Of scores, or differences of scores, by study, training run and class.

        Args:
            values: Studies x training runs x classes.
            queries: The queries of each class, which are its weight.

        Returns:
            The variance that each source adds to the mean of one study.
        """
        studies, runs, classes = values.shape
        weights = queries / queries.mean()
        centred = weights * (values - np.average(values.mean(axis=(0, 1)), weights=queries))
        of_class = centred.mean(axis=(0, 1))
        of_study = centred.mean(axis=(1, 2))
        of_run = centred.mean(axis=2)
        of_both = centred.mean(axis=1)
        rest = centred - of_run[:, :, None] - of_both[:, None] + of_study[:, None, None]
        run_class = float((rest**2).sum()) / max(1, studies * (runs - 1) * (classes - 1))
        run = _positive(
            float(of_run.var(axis=1, ddof=1).mean()) if runs > 1 else 0.0, run_class / classes
        )
        crossed = of_both - of_study[:, None] - of_class + of_class.mean()
        both = float((crossed**2).sum()) / ((studies - 1) * (classes - 1))
        study_class = _positive(both, run_class / runs)
        trainings = run / runs + run_class / runs / classes
        study = _positive(float(of_study.var(ddof=1)), trainings + study_class / classes)
        of_classes = float(of_class.var(ddof=1))
        in_class = study_class / studies + run_class / studies / runs
        return Sources(
            _positive(of_classes, in_class) / classes, trainings, study + study_class / classes
        )

    @property
    def total(self) -> float:
        """The variance over all sources."""
        return self.classes + self.trainings + self.studies

    @property
    def shares(self) -> tuple[float, float, float]:
        """The part of each source, from 0 to 1: classes, training runs, split and search."""
        total = self.total or 1.0
        return self.classes / total, self.trainings / total, self.studies / total


def _positive(seen: float, expected: float) -> float:
    return max(0.0, seen - expected)


def sources(rows: Sequence[MethodResult], metric: str) -> tuple[list[Sources], list[Sources]]:
    """Of the scores of methods, and of the differences of every pair of them.

    Args:
        rows: The trained methods of several whole studies.
        metric: The metric.

    Returns:
        Both lists; empty where scores per class were not kept, or of a single study.
    """
    known = {one.name: table for one in rows if (table := _table(one, metric)) is not None}
    if len(known) < len(rows) or len({table.shape for table in known.values()}) != 1:
        return [], []
    queries = next(iter(rows[0].classes.separate.values())).queries
    pairs = combinations(known.values(), 2)
    return (
        [Sources.of(table, queries) for table in known.values()],
        [Sources.of(a - b, queries) for a, b in pairs],
    )


def _table(one: MethodResult, metric: str) -> Floats | None:
    """Scores by study, training run (the mean of its folds) and class."""
    found = one.class_blocks(metric)
    if one.studies < 2 or not found:
        return None
    places: list[list[ClassTable]] = [
        [found[cell] for cell in sorted(found) if cell[0] == study] for study in range(one.studies)
    ]
    columns = [[table.column(metric) for table in study] for study in places]
    folds = one.experiment.folds
    if (
        len({len(study) for study in columns}) != 1
        or len({len(c) for s in columns for c in s}) != 1
    ):
        return None
    values = np.array(columns)
    studies, models, classes = values.shape
    means: Floats = values.reshape(studies, models // folds, folds, classes).mean(axis=2)
    return means


def mean_of(found: Sequence[Sources]) -> Sources:
    """The mean variance of each source over several scores or differences."""
    return Sources(
        fmean(one.classes for one in found),
        fmean(one.trainings for one in found),
        fmean(one.studies for one in found),
    )


def shares_sentence(found: Sequence[Sources], what: str) -> str:
    """The share of each source in the mean variance, in one sentence.

    >>> shares_sentence([Sources(6e-5, 1e-5, 3e-5)], "a score")  # doctest: +ELLIPSIS
    'Of the variance of a score of one study: 60 % test classes, 10 % training runs, ...'
    """
    mean = mean_of(found)
    names = ("test classes", "training runs", "split and search")
    parts = zip(mean.shares, names, strict=True)
    words = ", ".join(f"{100 * share:.0f} % {name}" for share, name in parts)
    error = 100 * mean.total**0.5
    return f"Of the variance of {what} of one study: {words} (standard error {error:.2f} points)."
