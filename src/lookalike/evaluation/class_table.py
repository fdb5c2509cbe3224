"""Scores per test class: the table classes x metrics behind the score of a test set.

A score is the mean over queries, so it is the mean of its classes, weighted by their queries. Which
classes are in the test set is a source of uncertainty of its own; its size follows from this table.
"""

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lookalike.errors import BadInput
from lookalike.evaluation.results import Evaluation

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ClassTable:
    """The scores of each test class.

    Attributes:
        classes: The names of the classes.
        queries: How many queries of each class have something relevant in the gallery.
        metrics: The metrics that are means over queries.
        values: Classes x metrics: the mean over the queries of a class.
    """

    classes: tuple[str, ...]
    queries: NDArray[np.int64]
    metrics: tuple[str, ...]
    values: Floats

    @staticmethod
    def of(found: Evaluation, names: Sequence[str]) -> "ClassTable | None":
        """The table of an evaluation whose labels are positions in ``names``.

        Classes without a query that counts are left out. None where no metric is a mean over
        queries.
        """
        metrics = [m for m in found.per_query if found.summaries.get(m, np.mean) is np.mean]
        if not metrics:
            return None
        rows = [one for one in found.per_class() if one.queries > one.without_relevant]
        return ClassTable(
            tuple(names[one.label] for one in rows),
            np.array([one.queries - one.without_relevant for one in rows], np.int64),
            tuple(metrics),
            np.array([[one.scores[metric] for metric in metrics] for one in rows]),
        )

    def column(self, metric: str) -> Floats:
        """The scores of all classes by one metric."""
        found: Floats = self.values[:, self.metrics.index(metric)]
        return found

    def score(self, metric: str) -> float:
        """The score of the test set: the mean over all queries."""
        return float(np.average(self.column(metric), weights=self.queries))

    def as_csv(self) -> str:
        """The table as text; all digits are kept."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(["class", "queries", *self.metrics])
        for name, count, row in zip(self.classes, self.queries, self.values, strict=True):
            writer.writerow([name, int(count), *map(float, row)])
        return text.getvalue()

    @staticmethod
    def from_csv(text: str, origin: str) -> "ClassTable":
        """The table that :meth:`as_csv` wrote; ``origin`` names it in an error."""
        try:
            head, *rows = csv.reader(io.StringIO(text))
            if head[:2] != ["class", "queries"]:
                raise ValueError("it does not begin with 'class,queries'")
            if not rows or any(int(row[1]) < 1 for row in rows):
                raise ValueError("a class needs queries")
            return ClassTable(
                tuple(row[0] for row in rows),
                np.array([int(row[1]) for row in rows], np.int64),
                tuple(head[2:]),
                np.array([list(map(float, row[2:])) for row in rows], np.float64).reshape(
                    len(rows), len(head) - 2
                ),
            )
        except (ValueError, IndexError, OverflowError, csv.Error) as error:
            raise BadInput(f"'{origin}' is not a table of scores per class: {error}") from None
