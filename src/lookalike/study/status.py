"""The progress of a study, read from its files."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from lookalike.study.intervals import Interval
from lookalike.study.results import MethodRow, StudyResults, load_results

__all__ = ["MethodStatus", "StudyStatus", "status_of", "status_table"]


@dataclass(frozen=True)
class MethodStatus:
    """The progress of one method on one data set."""

    dataset: str
    method: str
    trials: int
    trials_asked: int
    failed: int
    pruned: int
    repeats: int
    repeats_asked: int
    best: float | None
    """The best validation score so far."""
    test: Interval | None
    """The test score of one model, over the repeats (of one repeat, over its folds)."""
    concatenated: Interval | None
    """The test score of the folds' concatenated embeddings, over the repeats.

    Both are None before all repeats are tested, this one also where there is one fold."""
    seconds: float
    error: str = ""
    outdated: str = ""


@dataclass(frozen=True)
class StudyStatus:
    """The progress of a study."""

    name: str
    folder: str
    metric: str
    finished: bool
    runs_done: int
    runs_left: int
    seconds_left: float | None
    """At the mean time of a training so far, with the same workers; None before the first."""
    baselines: dict[str, dict[str, dict[str, float | None]]]
    """``test`` and ``concatenated`` scores by data set and baseline."""
    methods: tuple[MethodStatus, ...]

    def as_mapping(self) -> dict[str, Any]:
        """The status as JSON values; unknown numbers are None."""
        methods = [
            asdict(part)
            | {"test": part.test and part.test.as_mapping()}
            | {"concatenated": part.concatenated and part.concatenated.as_mapping()}
            for part in self.methods
        ]
        return asdict(self) | {"methods": methods}


def status_of(folder: Path) -> StudyStatus:
    """Read a study's folder."""
    found = load_results(folder)
    protocol = found.study["protocol"]
    folds = int(protocol["folds"]) if protocol["name"] == "cross-validation" else 1
    methods = tuple(
        _method_status(found, dataset, method, folds)
        for dataset in found.datasets
        for method in found.methods
    )
    done = sum(
        sum(max(1, len(trial.folds)) for trial in row.trials) + row.seeds * folds
        for row in found.rows
    )
    left = sum(_runs_left(part, folds) for part in methods)
    spent = sum(row.seconds for row in found.rows) / max(1, int(found.study.get("workers", 1)))
    seconds_left = spent / done * left if done else None
    baselines: dict[str, dict[str, dict[str, float | None]]] = {name: {} for name in found.datasets}
    for row in found.baselines:
        baselines[row.dataset][row.baseline] = {
            "test": row.score(found.metric, "separate"),
            "concatenated": row.score(found.metric) if folds > 1 else None,
        }
    return StudyStatus(
        name=found.name,
        folder=str(folder),
        metric=found.metric,
        finished=left == 0,
        runs_done=done,
        runs_left=left,
        seconds_left=seconds_left if left else 0.0,
        baselines=baselines,
        methods=methods,
    )


def _method_status(found: StudyResults, dataset: str, method: str, folds: int) -> MethodStatus:
    row = found.row(dataset, method)
    if row is None:  # not begun: as many trials and repeats as the others
        other = next(iter(found.rows), None)
        repeats = other.repeats_asked if other else int(found.study["repeats"])
        trials = other.trials_asked if other else int(found.study["tuner"]["trials"] or 0)
        row = MethodRow(dataset, method, {}, {}, None, trials_asked=trials, repeats_asked=repeats)
    tested = row.seeds > 0 and row.seeds == row.repeats_asked
    errors = [trial.error for trial in row.trials if trial.error] + list(row.errors)
    return MethodStatus(
        dataset=dataset,
        method=method,
        trials=len(row.trials),
        trials_asked=row.trials_asked,
        failed=row.failed + len(row.errors),
        pruned=row.pruned,
        repeats=row.seeds,
        repeats_asked=row.repeats_asked - len(row.errors),
        best=max(row.values, default=None),
        test=row.interval(found.metric, "separate") if tested else None,
        concatenated=row.interval(found.metric) if tested and folds > 1 else None,
        seconds=row.seconds,
        error=errors[0] if errors else "",
        outdated=row.outdated,
    )


def _runs_left(part: MethodStatus, folds: int) -> int:
    """How many trainings are left, at most."""
    tuned = part.trials >= part.trials_asked
    if tuned and part.trials and part.best is None:
        return 0
    repeats = part.repeats_asked - part.repeats
    return (part.trials_asked - part.trials + repeats) * folds


def status_table(found: StudyStatus) -> str:
    """The status as a table of text."""
    head = ["data", "method", "trials", "failed", "pruned", "best", "repeats", "test", "±"]
    rows = [(*head, "concatenated", "±")]
    rows += [
        (
            part.dataset,
            part.method,
            f"{part.trials}/{part.trials_asked}" if part.trials_asked else "–",
            str(part.failed or ""),
            str(part.pruned or ""),
            _percent(part.best),
            f"{part.repeats}/{part.repeats_asked}",
            *_cells(part.test),
            *_cells(part.concatenated),
        )
        for part in found.methods
    ]
    rows += [
        (dataset, name, *[""] * 5, _percent(one["test"]), "", _percent(one["concatenated"]), "")
        for dataset, baselines in found.baselines.items()
        for name, one in baselines.items()
    ]
    columns = [
        [cell.ljust(width) if number < 2 else cell.rjust(width) for cell in column]
        for number, column in enumerate(zip(*rows, strict=True))
        if number < 9 or any(column[1:])
        for width in [max(map(len, column))]
    ]
    lines = ["  ".join(row).rstrip() for row in zip(*columns, strict=True)]
    if found.finished:
        time = "finished"
    elif found.seconds_left is None:
        time = "the time left is not known yet"
    elif found.seconds_left < 120:
        time = f"about {found.seconds_left:.0f} s left"
    else:
        time = f"about {found.seconds_left / 60:.0f} min left"
    title = f"{found.name}: {found.metric} in per cent, {found.runs_done} trainings done, {time}"
    problems = [f"{p.dataset} {p.method}: {p.error}" for p in found.methods if p.error]
    problems += [
        f"{part.dataset} {part.method}: outdated until trained again: {part.outdated}"
        for part in found.methods
        if part.outdated
    ]
    return "\n".join([title, *lines, *_legend(found), *problems])


def _percent(score: float | None) -> str:
    return "" if score is None else f"{100 * score:.2f}"


def _cells(score: Interval | None) -> tuple[str, str]:
    return ("", "") if score is None else (_percent(score.mean), _percent(score.half))


def _legend(found: StudyStatus) -> list[str]:
    """Explanations of the columns of test scores."""
    lines = []
    tests = [part.test for part in found.methods if part.test is not None]
    if any(test.over == "folds" for test in tests):
        lines.append(
            "test: mean of the folds' models; ±: their standard deviation with one seed, "
            "not a confidence interval"
        )
    elif any(test.half is not None for test in tests):
        lines.append("test: mean of single models; ±: half the 95 % t-interval over repeats")
    if any(part.concatenated for part in found.methods):
        lines.append("concatenated: the folds' embeddings, concatenated")
    return lines
