"""How far a study is, read from its files."""

from dataclasses import dataclass
from pathlib import Path

from lookalike.study.intervals import Interval
from lookalike.study.results import MethodRow, StudyResults, load_results

__all__ = ["MethodStatus", "StudyStatus", "status_of", "status_table"]


@dataclass(frozen=True)
class MethodStatus:
    """One line of the table."""

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
    """The test score of the concatenated embeddings over the repeats, when all are there."""
    seconds: float
    error: str = ""


@dataclass(frozen=True)
class StudyStatus:
    """A study as it stands."""

    name: str
    folder: str
    metric: str
    finished: bool
    runs_done: int
    runs_left: int
    seconds_left: float | None
    """At the mean time of a training so far; None while nothing is known."""
    baselines: dict[str, dict[str, float]]
    """By data set and name: the test score of the concatenated embeddings."""
    methods: tuple[MethodStatus, ...]


def status_of(folder: Path) -> StudyStatus:
    """Read a study's folder."""
    found = load_results(folder)
    lines = tuple(
        line(found, dataset, method) for dataset in found.datasets for method in found.methods
    )
    folds = folds_in(found)
    done = sum(row_runs(row, folds) for row in found.rows)
    left = sum(runs_left(part, folds) for part in lines)
    baselines: dict[str, dict[str, float]] = {dataset: {} for dataset in found.datasets}
    for row in found.baselines:
        baselines[row.dataset][row.baseline] = row.score(found.metric)
    return StudyStatus(
        name=found.name,
        folder=str(folder),
        metric=found.metric,
        finished=left == 0,
        runs_done=done,
        runs_left=left,
        seconds_left=time_left(found, left, folds),
        baselines=baselines,
        methods=lines,
    )


def line(found: StudyResults, dataset: str, method: str) -> MethodStatus:
    """The state of one method."""
    row = found.row(dataset, method)
    if row is None:
        row = MethodRow(dataset, method, {}, {}, None)
        some = next(iter(found.rows), None)
        asked = some.repeats_asked if some else int(found.study["repeats"])
        trials = some.trials_asked if some else int(found.study["tuner"]["trials"] or 0)
        return MethodStatus(dataset, method, 0, trials, 0, 0, 0, asked, None, None, 0.0)
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
        test=row.interval(found.metric) if row.seeds and row.seeds == row.repeats_asked else None,
        seconds=row.seconds,
        error=errors[0] if errors else "",
    )


def folds_in(found: StudyResults) -> int:
    """How many models one setting is."""
    protocol = found.study["protocol"]
    return int(protocol["folds"]) if protocol["name"] == "cross-validation" else 1


def row_runs(row: MethodRow, folds: int) -> int:
    """How many trainings are behind a row."""
    return sum(max(1, len(trial.folds)) for trial in row.trials) + row.seeds * folds


def runs_left(part: MethodStatus, folds: int) -> int:
    """How many trainings are still to come, at most."""
    tuned = part.trials >= part.trials_asked
    if tuned and part.trials and part.best is None:
        return 0
    repeats = part.repeats_asked - part.repeats
    return (part.trials_asked - part.trials + repeats) * folds


def time_left(found: StudyResults, left: int, folds: int) -> float | None:
    """What is left, at the mean time of a training so far, shared by the driver's workers."""
    if left == 0:
        return 0.0
    done = sum(row_runs(row, folds) for row in found.rows)
    if not done:
        return None
    spent = sum(row.seconds for row in found.rows)
    return spent / done * left / max(1, int(found.study.get("workers", 1)))


def status_table(found: StudyStatus) -> str:
    """The status for people."""
    rows = [("data", "method", "trials", "failed", "pruned", "best", "repeats", "test", "± 95 %")]
    for part in found.methods:
        test = part.test
        rows.append(
            (
                part.dataset,
                part.method,
                f"{part.trials}/{part.trials_asked}" if part.trials_asked else "–",
                str(part.failed or ""),
                str(part.pruned or ""),
                "" if part.best is None else f"{100 * part.best:.2f}",
                f"{part.repeats}/{part.repeats_asked}",
                "" if test is None else f"{100 * test.mean:.2f}",
                "" if test is None else f"{100 * (test.high - test.mean):.2f}",
            )
        )
    for dataset, scores in found.baselines.items():
        rows += [
            (dataset, name, "", "", "", "", "", f"{100 * value:.2f}", "")
            for name, value in scores.items()
        ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(
            cell.ljust(width) if place < 2 else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
    ended = "finished" if found.finished else remaining(found.seconds_left)
    head = f"{found.name}: {found.metric} in per cent, {found.runs_done} trainings done, {ended}"
    broken = [f"{part.dataset} {part.method}: {part.error}" for part in found.methods if part.error]
    return "\n".join([head, *lines, *broken])


def remaining(seconds: float | None) -> str:
    """The time left, for people."""
    if seconds is None:
        return "the time left is not known yet"
    shown = f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
    return f"about {shown} left"
