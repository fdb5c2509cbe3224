"""What came out of a reproduction: every row with its published and its own scores."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import fmean

from lookalike.published import Published
from lookalike.reproduce.catalogue import Entry
from lookalike.reproduce.claims import ClaimResult
from lookalike.reproduce.scale import Scale
from lookalike.reproduce.selection import Row, year_of
from lookalike.study.intervals import Interval, interval
from lookalike.study.results import MethodRow, Which

__all__ = ["Outcome", "OutcomeRow"]


@dataclass(frozen=True)
class OutcomeRow:
    """A planned row and what a study found for it."""

    planned: Row
    result: MethodRow
    runs: tuple[Path, ...] = ()
    """The folders of its runs, first repeat and first fold first, where they were kept."""

    @property
    def method(self) -> str:
        """The method."""
        return self.planned.method

    @property
    def axes(self) -> Mapping[str, str]:
        """The values of what varies besides the method."""
        return self.planned.axes

    @property
    def label(self) -> str:
        """The method with its axes."""
        return self.planned.label

    @property
    def year(self) -> int | None:
        """The year of the method's paper."""
        return year_of(self.planned.config)

    @property
    def published(self) -> Mapping[str, Published]:
        """What the document prints, by metric, in per cent."""
        return self.planned.published

    @cached_property
    def trainings(self) -> Sequence[Mapping[str, float]]:
        """The scores of each training, by metric."""
        return [scores for repeat in self.result.repeats for scores in repeat.separate]

    @cached_property
    def ours(self) -> Mapping[str, Interval]:
        """The scores over trainings, by metric; a fold's model is a training."""
        return self._intervals("separate")

    @cached_property
    def concatenated(self) -> Mapping[str, Interval]:
        """Those of the folds' concatenated embeddings; empty where there is one fold."""
        several = any(len(repeat.separate) > 1 for repeat in self.result.repeats)
        return self._intervals("concatenated") if several else {}

    @cached_property
    def validation(self) -> Interval | None:
        """The score on validation classes, by the metric that chose the epoch."""
        found = [fmean(repeat.validation) for repeat in self.result.repeats if repeat.validation]
        return interval(found) if found else None

    def difference(self, metric: str) -> float | None:
        """Ours minus the published number, between -1 and 1."""
        printed = self.published.get(metric)
        if metric not in self.ours or printed is None or printed.value is None:
            return None
        return self.ours[metric].mean - printed.value / 100

    def _intervals(self, which: Which) -> dict[str, Interval]:
        names = dict.fromkeys(metric for scores in self.trainings for metric in scores)
        return {metric: self.result.interval(metric, which) for metric in names}


@dataclass(frozen=True)
class Outcome:
    """A table or figure of a paper, trained again."""

    entry: Entry
    scale: Scale
    rows: tuple[OutcomeRow, ...]
    deviations: tuple[str, ...]
    """What differs from the paper, as sentences."""
    claims: tuple[ClaimResult, ...]
    open_questions: tuple[str, ...] = ()
    """What the document leaves open."""
    unfinished: tuple[str, ...] = ()
    """The labels of rows that have no test score yet."""
    command: str = ""

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metrics that were measured, in the order of the rows."""
        return tuple(dict.fromkeys(metric for row in self.rows for metric in row.ours))
