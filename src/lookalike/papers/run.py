"""A table or figure, trained as a study: its rows are the study's rows, and resumable like it.

``reproduce(plan, executor)`` trains everything that is not finished and returns the
:class:`Outcome`; ``outcome_of`` reads what there is so far.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from lookalike.compare.contenders import MethodResult, ResultSet, gather
from lookalike.errors import BadInput
from lookalike.files import write_json
from lookalike.papers.catalogue import Entry, entries
from lookalike.papers.claims import METRIC, ClaimResult, judge
from lookalike.papers.plan import Plan, open_questions
from lookalike.papers.scale import Scale
from lookalike.papers.selection import Row, check_data, heading, printed_rows, scores_of
from lookalike.progress import Watcher
from lookalike.published import Published
from lookalike.report.formatting import metric_label
from lookalike.runs.run import Run
from lookalike.study.config import StudyConfig, parse_study
from lookalike.study.driver import Executor, run_study
from lookalike.study.results import StudyResults
from lookalike.study.table import load_results


@dataclass(frozen=True)
class Outcome:
    """A table or figure of a paper, trained again."""

    entry: Entry
    heading: str
    """What is shown, and of which images and network: at small scale others than the paper's."""
    scale: Scale
    rows: tuple[Row, ...]
    """Those that were tested, or, of a figure that shows the losses themselves, all."""
    deviations: tuple[str, ...]
    """What differs from the paper, as sentences."""
    claims: tuple[ClaimResult, ...]
    open_questions: tuple[str, ...] = ()
    """What the document leaves open."""
    unfinished: tuple[str, ...] = ()
    """The labels of rows that have no test score yet."""
    command: str = ""
    gathered: ResultSet | None = field(default=None, compare=False)
    """The study, as every report shows it; None where nothing was tested."""

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metrics that were measured, in the order of the rows."""
        return tuple(dict.fromkeys(metric for row in self.rows for metric in row.ours))

    @cached_property
    def baselines(self) -> tuple[MethodResult, ...]:
        """What the networks score without training, each once.

        Equal baselines of several cells are one, with the values of axes that all of them share.
        """
        merged: dict[str, list[MethodResult]] = {}
        for one in self.gathered.contenders if self.gathered else ():
            if one.baseline:
                scores = [one.name, *(dict(model.scores) for model in one.models)]
                merged.setdefault(json.dumps(scores), []).append(one)
        found = []
        for first, *others in merged.values():
            common = {
                key: value
                for key, value in first.axes.items()
                if all(other.axes.get(key) == value for other in others)
            }
            found.append(replace(first, axes=common))
        return tuple(found)

    @property
    def unbeaten(self) -> list[str]:
        """A sentence for each untrained network that scores higher than every trained row."""
        found = []
        for one in self.baselines:
            rows = [row for row in self.rows if one.axes.items() <= row.axes.items()]
            trained = [row for row in rows if METRIC in row.ours]
            own = one.interval(METRIC)
            if own is None or not trained:
                continue
            best = max(trained, key=lambda row: row.ours[METRIC].mean)
            score, theirs = 100 * own.mean, 100 * best.ours[METRIC].mean
            if score > theirs:
                where = "".join(f", {key} {value}" for key, value in one.axes.items())
                found.append(
                    f"Higher in {metric_label(METRIC)} than every trained row{where}: "
                    f"{one.name} of the untrained network ({score:.2f}); the best of the rows, "
                    f"{best.label}, has {theirs:.2f}."
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
            "rows": [_row_mapping(row) for row in self.rows if row.contender],
            "baselines": [
                {
                    "method": one.name,
                    "axes": dict(one.axes),
                    "scores": {m: found.as_mapping() for m, found in scores_of(one).items()},
                }
                for one in self.baselines
            ],
        }


def _row_mapping(row: Row) -> dict[str, Any]:
    """A row as JSON values."""
    study_row = row.contender.row if row.contender else None
    return {
        "method": row.method,
        "axes": dict(row.axes),
        "label": row.label,
        "year": row.year,
        "recipe": row.recipe,
        "protocol": row.config.protocol.name,
        "validated": row.config.protocol.name != "paper",
        "trainings": len(row.trainings),
        "seeds": study_row.seeds if study_row else 0,
        "trials": len(row.trials),
        "seconds": study_row.seconds if study_row else None,
        "scores": {
            metric: {
                "published": _fraction(row.published, metric),
                "ours": found.as_mapping(),
                "difference": row.difference(metric),
                "concatenated": joined.as_mapping() if joined else None,
            }
            for metric, found in row.ours.items()
            for joined in [row.concatenated.get(metric)]
        },
        "validation": {
            row.validation_metric: {
                "published": _fraction(row.published_validation, row.validation_metric),
                "ours": row.validation.as_mapping(),
            }
        }
        if row.validation
        else {},
        "tuned": row.tuned,
        "printed": {one.parameter: one.value for one in row.printed},
        "runs": [run.name for run in row.runs],
    }


def _fraction(printed: Mapping[str, Published], metric: str) -> float | None:
    """A published number as a fraction."""
    found = printed.get(metric)
    return None if found is None or found.value is None else found.value / 100


NEED_RUNS = ("projection", "distances", "retrieval")
"""Figures that show the embeddings of the runs."""
RUNS = "runs"


def folder_of(plan: Plan, given: Path | None = None) -> Path:
    """The folder of the results.

    Args:
        plan: What is trained.
        given: Another folder than ``results/reproduce/...``.

    Returns:
        The folder, which may not exist yet.
    """
    return given or Path("results") / plan.folder


def page_of(plan: Plan, given: Path | None = None) -> Path:
    """The page of a reproduction; its tables are beside it.

    Args:
        plan: What is trained.
        given: Another folder of the results than ``results/reproduce/...``.

    Returns:
        A path that says the table and, if it is small, the scale and the images.
    """
    table = plan.entry.name.partition("/")[2]
    return folder_of(plan, given) / f"{table}{plan.suffix}.html"


def study_of(plan: Plan, folder: Path) -> StudyConfig:
    """The study that trains a plan's rows, with their settings fixed or searched.

    Args:
        plan: What is trained.
        folder: The folder of the results, where runs are kept if a figure needs them.

    Returns:
        The study.

    Raises:
        BadInput: There is nothing to train, or the rows have no metric in common.
    """
    if not plan.rows:
        raise BadInput(f"'{plan.entry.name}' is a list: there is nothing to train")
    keep = needs_runs(plan.entry)
    return parse_study(
        {
            "name": plan.folder.removeprefix("reproduce/"),
            "results": folder,
            "rows": [_row_values(row, folder) for row in plan.rows],
            "tuner": plan.tuner.model_dump(),
            "repeats": plan.repeats,
            "metric": main_metric(plan.rows),
            "checkpoints": True if keep else None,
            "keep_runs": keep,
        },
        plan.entry.name,
    )


def needs_runs(entry: Entry) -> bool:
    """Whether a figure shows embeddings, of this entry or of another one of the same trainings.

    Args:
        entry: The table or figure.

    Returns:
        Whether the folders of runs are kept.
    """
    same = [one for one in entries().values() if one.study == entry.study]
    return any(figure.kind in NEED_RUNS for one in same for figure in one.figures)


def main_metric(rows: Sequence[Row]) -> str:
    """The metric that the progress shows: Recall@1, if every row has it.

    Args:
        rows: What is trained.

    Returns:
        The name of a metric of every row.

    Raises:
        BadInput: The rows have no metric in common.
    """
    first, *others = [row.config.protocol.metrics for row in rows]
    common = [metric for metric in first if all(metric in other for other in others)]
    if not common:
        raise BadInput("the rows have no metric in common; see protocol.metrics")
    return "recall@1" if "recall@1" in common else common[0]


def _row_values(row: Row, folder: Path) -> dict[str, Any]:
    config = row.config.model_dump(mode="json") | {"runs_dir": str(folder / RUNS)}
    return {"method": row.method, "axes": row.axes, "config": config, "search": row.search}


def reproduce(
    plan: Plan,
    executor: Callable[[], AbstractContextManager[Executor]],
    *,
    folder: Path | None = None,
    watcher: Watcher | None = None,
    command: str = "",
) -> Outcome:
    """Train what is not finished, and gather everything.

    Args:
        plan: The rows.
        executor: Makes what executes the trainings: processes, or a Ray cluster.
        folder: The folder of the results; None: ``results/reproduce/...``.
        watcher: Receives progress and notes.
        command: The command that gives the same outcome.

    Returns:
        What came out.

    Raises:
        BadInput: Data or weights are missing, or the folder has results of other settings.
    """
    folder = folder_of(plan, folder)
    check_data(plan.entry, plan.rows)
    study = study_of(plan, folder)
    run_study(study, executor, folder=folder, watcher=watcher)
    found = outcome_of(plan, folder, command)
    write_json(page_of(plan, folder).with_suffix(".json"), found.as_mapping())
    return found


def outcome_of(plan: Plan, folder: Path, command: str = "") -> Outcome:
    """What a study has found so far for a plan's rows.

    Args:
        plan: The rows.
        folder: The folder of the results.
        command: The command that gives the same outcome.

    Returns:
        The rows that were tested, with published numbers, deviations and claims.

    Raises:
        BadInput: The folder has no results.
    """
    results = load_results(folder)
    gathered = _gathered(folder, results)
    found = [(row, _tested(row, gathered)) for row in plan.rows]
    rows = tuple(one for _, one in found if one is not None)
    printed = printed_rows(plan.entry)
    return Outcome(
        entry=plan.entry,
        heading=heading(plan.entry, plan.rows),
        scale=plan.scale,
        rows=rows,
        deviations=plan.deviations,
        claims=tuple(judge(claim, rows, printed) for claim in plan.entry.claims),
        open_questions=tuple(open_questions(plan.entry, plan.rows)),
        unfinished=tuple(_unfinished(row, results) for row, one in found if one is None),
        command=command,
        gathered=gathered,
    )


def _gathered(folder: Path, results: StudyResults) -> ResultSet | None:
    """The study with the runs that it kept; None where nothing is tested yet."""
    if not results.chosen or not any(row.repeats for row in results.rows):
        return None
    found = gather([folder])
    return replace(found, contenders=tuple(_with_runs(one, folder) for one in found.contenders))


def _with_runs(one: MethodResult, folder: Path) -> MethodResult:
    repeats = one.row.repeats if one.row else ()
    runs = [Run(folder / RUNS / name) for repeat in repeats for name in repeat.runs]
    return replace(one, runs=tuple(r for r in runs if (r.folder / "test.safetensors").is_file()))


def _tested(row: Row, gathered: ResultSet | None) -> Row | None:
    """The row with its scores; None before it was tested."""
    for one in gathered.contenders if gathered else ():
        theirs = one.row
        if theirs and (theirs.dataset, theirs.label) == (row.config.data.name, row.label):
            named = replace(one.experiment, name=row.label)
            return replace(row, contender=replace(one, experiment=named))
    return None


def _unfinished(row: Row, results: StudyResults) -> str:
    """The name of a row without scores, and why it has none if it failed."""
    result = results.row(row.config.data.name, row.method, row.axes)
    errors = (
        [] if result is None else [*result.errors, *(t.error for t in result.trials if t.error)]
    )
    return f"{row.label} ({errors[0]})" if errors else row.label
