"""Rows of a reproduction whose truth is known: methods by training and test class."""

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from lookalike.compare.audit import Experiment
from lookalike.compare.contenders import MethodResult, ModelScores
from lookalike.evaluation.class_table import ClassTable


@dataclass
class Scored:
    """A row with scores by training and, where given, by training and class."""

    method: str
    cells: list
    axes: dict = field(default_factory=dict)
    year: int | None = None
    dataset: str = ""
    published: dict = field(default_factory=dict)
    tables: list = field(default_factory=list)

    @property
    def contender(self):
        label = ", ".join((self.method, *self.axes.values()))
        tables = self.tables or [None] * len(self.cells)
        return MethodResult(
            dataset="made up",
            config=None,
            scores=tuple(
                ModelScores(at, 0, scores, table)
                for at, (scores, table) in enumerate(zip(self.cells, tables, strict=True))
            ),
            experiment=Experiment(label, {}),
            source=Path(),
        )


def scored(method, *values, **more):
    """Of Recall@1 alone, one score for each training."""
    return Scored(method, [{"recall@1": float(value)} for value in values], **more)


def by_class(method, values, queries=None, **more):
    """Of scores [training, class]."""
    values = np.asarray(values, float)
    names = tuple(f"class {at}" for at in range(values.shape[1]))
    queries = np.full(len(names), 30) if queries is None else queries
    tables = [ClassTable(names, queries, ("recall@1",), one[:, None]) for one in values]
    cells = [{"recall@1": float(np.average(one, weights=queries))} for one in values]
    return Scored(method, cells, tables=tables, **more)


@dataclass(frozen=True)
class World:
    """Standard deviations of scores, and the size of a reproduction."""

    of_class: float
    """Of a method on a class: better at some, worse at others."""
    of_training: float
    of_both: float = 0.01
    trainings: int = 5
    classes: int = 50

    def rows(self, rng, gaps, axes=None, years=None):
        """One row for each true gap to the first method, and what it is on these classes."""
        shape = (self.trainings, self.classes)
        level = rng.normal(0.5, 0.1, self.classes)
        queries = rng.integers(10, 60, self.classes)
        found, here = [], []
        for at, gap in enumerate(gaps):
            own = gap + rng.normal(0, self.of_class, self.classes)
            training = rng.normal(0, self.of_training, (self.trainings, 1))
            values = level + own + training + rng.normal(0, self.of_both, shape)
            here.append(float(np.average(own, weights=queries)))
            more = {"axes": axes[at]} if axes else {}
            more |= {"year": years[at]} if years else {}
            name = "m" if axes else "abcdefghijklmnop"[at]
            found.append(by_class(name, values, queries, **more))
        return found, here
