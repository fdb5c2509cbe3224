"""What came out of a reproduction: every row with its published and its own scores."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from lookalike.compare.audit import Experiment
from lookalike.compare.contenders import MethodResult
from lookalike.papers.catalogue import Entry
from lookalike.papers.claims import METRIC, ClaimResult
from lookalike.papers.scale import Scale
from lookalike.papers.selection import Row
from lookalike.published import Published
from lookalike.report.formatting import metric_label
from lookalike.runs.run import Run
from lookalike.study.classes import RowClasses
from lookalike.study.intervals import Interval, summarize
from lookalike.study.results import BaselineRow, MethodRow, Which

__all__ = ["Baseline", "Outcome", "OutcomeRow", "baselines_of"]

NAMES = {
    "raw-features": "untrained network",
    "pca": "untrained network, PCA",
    "lda": "untrained network, LDA",
}


def _fraction(printed: Published | None) -> float | None:
    """A published number as a fraction."""
    return None if printed is None or printed.value is None else printed.value / 100


@dataclass(frozen=True)
class OutcomeRow:
    """A planned row and what a study found for it."""

    planned: Row
    result: MethodRow
    runs: tuple[Path, ...] = ()
    """The folders of its runs, first repeat and first fold first, where they were kept."""
    classes: RowClasses = field(default_factory=RowClasses, compare=False)
    """Its scores per test class; empty where they were not kept."""

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
        return self.planned.year

    @property
    def dataset(self) -> str:
        """The data set of papers whose numbers may stand beside; empty: there is none."""
        return self.planned.dataset

    @property
    def published(self) -> Mapping[str, Published]:
        """What the document prints, by metric, in per cent."""
        return self.planned.published

    @cached_property
    def contender(self) -> MethodResult:
        """The row as ``compare`` and reports know it, under its label."""
        repeats = self.result.repeats
        return MethodResult(
            dataset=self.result.dataset,
            config=self.planned.config,
            cells={(r.number, f): s for r in repeats for f, s in enumerate(r.separate)},
            concatenated={r.number: r.concatenated for r in repeats if len(r.separate) > 1},
            experiment=Experiment(self.label, {}),
            source=Path(self.result.dataset),
            row=self.result,
            runs=tuple(Run(run) for run in self.runs if (run / "test.safetensors").is_file()),
            dim=self.planned.config.model.dim,
            classes=self.classes,
        )

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
        found = [repeat.validation for repeat in self.result.repeats if repeat.validation]
        return summarize(found) if found else None

    def difference(self, metric: str) -> float | None:
        """Ours minus the published number, between -1 and 1.

        None where ours is of other images or another network than the paper's.
        """
        value = _fraction(self.published.get(metric))
        if value is None or metric not in self.ours or not self.planned.as_in_the_paper:
            return None
        return self.ours[metric].mean - value

    def as_mapping(self) -> dict[str, Any]:
        """The row as JSON values; scores are fractions, unknown numbers None."""
        result, validation = self.result, self.validation
        printed, validated = self.published, self.planned.published_validation
        return {
            "method": self.method,
            "axes": dict(self.axes),
            "label": self.label,
            "year": self.year,
            "recipe": self.planned.recipe,
            "protocol": self.planned.config.protocol.name,
            "validated": result.validated,
            "trainings": len(self.trainings),
            "seeds": result.seeds,
            "trials": len(result.trials),
            "seconds": result.seconds,
            "scores": {
                metric: {
                    "published": _fraction(printed.get(metric)),
                    "ours": found.as_mapping(),
                    "difference": self.difference(metric),
                    "concatenated": joined.as_mapping() if joined else None,
                }
                for metric, found in self.ours.items()
                for joined in [self.concatenated.get(metric)]
            },
            "validation": {
                result.metric: {
                    "published": _fraction(validated.get(result.metric)),
                    "ours": validation.as_mapping(),
                }
            }
            if validation
            else {},
            "tuned": result.tuned,
            "printed": {one.parameter: one.value for one in self.planned.printed},
            "runs": [run.name for run in self.runs],
        }

    def _intervals(self, which: Which) -> dict[str, Interval]:
        names = dict.fromkeys(metric for scores in self.trainings for metric in scores)
        return {metric: self.result.interval(metric, which) for metric in names}


@dataclass(frozen=True)
class Baseline:
    """What the network of some rows scores without training."""

    method: str
    axes: Mapping[str, str]
    """The values that its rows have in common."""
    ours: Mapping[str, Interval]
    """The scores over the folds, by metric."""
    concatenated: Mapping[str, Interval]

    def as_mapping(self) -> dict[str, Any]:
        """The baseline as JSON values; scores are fractions."""
        return {
            "method": self.method,
            "axes": dict(self.axes),
            "scores": {metric: found.as_mapping() for metric, found in self.ours.items()},
        }


def baselines_of(found: Sequence[BaselineRow], rows: Sequence[OutcomeRow]) -> list[Baseline]:
    """The baselines of a study, each once.

    Args:
        found: Those of each group of rows that share data, protocol, network and size.
        rows: What was trained.

    Returns:
        Equal baselines of several groups as one, with the values of axes that all their rows share.
    """
    merged: dict[str, list[BaselineRow]] = {}
    for one in found:
        merged.setdefault(f"{one.baseline} {one.dataset} {one.separate}", []).append(one)
    baselines = []
    for same in merged.values():
        groups = {one.group or one.dataset for one in same}
        theirs = [row.axes for row in rows if (row.result.group or row.result.dataset) in groups]
        if not theirs:
            continue
        common = {k: v for k, v in theirs[0].items() if all(axes.get(k) == v for axes in theirs)}
        first = same[0]
        several = len(first.separate) > 1
        baselines.append(
            Baseline(
                NAMES.get(first.baseline, first.baseline),
                common,
                {m: summarize([[fold[m] for fold in first.separate]]) for m in first.separate[0]},
                {m: summarize([[v]]) for m, v in first.concatenated.items()} if several else {},
            )
        )
    return baselines


@dataclass(frozen=True)
class Outcome:
    """A table or figure of a paper, trained again."""

    entry: Entry
    heading: str
    """What is shown, and of which images and network: at small scale others than the paper's."""
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
    drawn: tuple[Row, ...] = ()
    """Rows of a figure that shows the losses themselves: nothing is trained."""
    baselines: tuple[Baseline, ...] = ()
    """What the study's networks score without training."""

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metrics that were measured, in the order of the rows."""
        return tuple(dict.fromkeys(metric for row in self.rows for metric in row.ours))

    @property
    def unbeaten(self) -> list[str]:
        """A sentence for each untrained network that scores higher than every trained row."""
        found = []
        for one in self.baselines:
            rows = [row for row in self.rows if one.axes.items() <= row.axes.items()]
            trained = [row for row in rows if METRIC in row.ours]
            if METRIC not in one.ours or not trained:
                continue
            best = max(trained, key=lambda row: row.ours[METRIC].mean)
            score, theirs = 100 * one.ours[METRIC].mean, 100 * best.ours[METRIC].mean
            if score > theirs:
                where = "".join(f", {key} {value}" for key, value in one.axes.items())
                found.append(
                    f"Higher in {metric_label(METRIC)} than every trained row{where}: the "
                    f"{one.method} ({score:.2f}); the best of the rows, {best.label}, has "
                    f"{theirs:.2f}."
                )
        return found

    def as_mapping(self) -> dict[str, Any]:
        """The outcome as JSON values; scores are fractions, unknown numbers None."""
        return {
            "name": self.entry.name,
            "title": self.heading,
            "paper": self.entry.paper,
            "source": self.entry.source,
            "scale": self.scale,
            "command": self.command,
            "deviations": list(self.deviations),
            "open_questions": list(self.open_questions),
            "unbeaten": self.unbeaten,
            "claims": [asdict(claim) for claim in self.claims],
            "unfinished": list(self.unfinished),
            "rows": [row.as_mapping() for row in self.rows],
            "baselines": [one.as_mapping() for one in self.baselines],
        }
