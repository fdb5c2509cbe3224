"""How far a study is, read from its files."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from lookalike.study.intervals import Interval
from lookalike.study.results import MethodRow, StudyResults, load_results

__all__ = ["BaselineStatus", "MethodStatus", "StudyStatus", "status_of", "status_table"]


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
    """The test score of one model, over the repeats (of one repeat, over its folds)."""
    concatenated: Interval | None
    """The test score of the folds' embeddings side by side, over the repeats.

    Both are there when all repeats are; the second only where there are several folds."""
    seconds: float
    error: str = ""
    outdated: str = ""


@dataclass(frozen=True)
class BaselineStatus:
    """The test scores of what needs no training: mean over folds, and of all side by side."""

    test: float
    concatenated: float | None


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
    baselines: dict[str, dict[str, BaselineStatus]]
    """By data set and name."""
    methods: tuple[MethodStatus, ...]

    def as_mapping(self) -> dict[str, Any]:
        """For a program; what is not known is None."""
        return asdict(self) | {"methods": [_method_mapping(part) for part in self.methods]}


def _method_mapping(part: MethodStatus) -> dict[str, Any]:
    test, joined = (one and one.as_mapping() for one in (part.test, part.concatenated))
    return asdict(part) | {"test": test, "concatenated": joined}


def status_of(folder: Path) -> StudyStatus:
    """Read a study's folder."""
    found = load_results(folder)
    lines = tuple(
        line(found, dataset, method) for dataset in found.datasets for method in found.methods
    )
    folds = folds_in(found)
    done = sum(row_runs(row, folds) for row in found.rows)
    left = sum(runs_left(part, folds) for part in lines)
    baselines: dict[str, dict[str, BaselineStatus]] = {dataset: {} for dataset in found.datasets}
    for row in found.baselines:
        baselines[row.dataset][row.baseline] = BaselineStatus(
            row.score(found.metric, "separate"), row.score(found.metric) if folds > 1 else None
        )
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
        return MethodStatus(dataset, method, 0, trials, 0, 0, 0, asked, None, None, None, 0.0)
    tested = row.seeds > 0 and row.seeds == row.repeats_asked
    several = folds_in(found) > 1
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
        concatenated=row.interval(found.metric) if tested and several else None,
        seconds=row.seconds,
        error=errors[0] if errors else "",
        outdated=row.outdated,
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
    head = ["data", "method", "trials", "failed", "pruned", "best", "repeats", "test", "±"]
    rows = [(*head, "concatenated", "±")]
    for part in found.methods:
        rows.append(
            (
                part.dataset,
                part.method,
                f"{part.trials}/{part.trials_asked}" if part.trials_asked else "–",
                str(part.failed or ""),
                str(part.pruned or ""),
                "" if part.best is None else f"{100 * part.best:.2f}",
                f"{part.repeats}/{part.repeats_asked}",
                *_cells(part.test),
                *_cells(part.concatenated),
            )
        )
    for dataset, baselines in found.baselines.items():
        rows += [
            (dataset, name, *[""] * 5, _percent(one.test), "", _percent(one.concatenated), "")
            for name, one in baselines.items()
        ]
    filled = [at for at, column in enumerate(zip(*rows, strict=True)) if at < 9 or any(column[1:])]
    rows = [tuple(row[at] for at in filled) for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(
            cell.ljust(width) if place < 2 else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
    ended = "finished" if found.finished else remaining(found.seconds_left)
    title = f"{found.name}: {found.metric} in per cent, {found.runs_done} trainings done, {ended}"
    broken = [f"{part.dataset} {part.method}: {part.error}" for part in found.methods if part.error]
    broken += [
        f"{part.dataset} {part.method}: outdated until trained again: {part.outdated}"
        for part in found.methods
        if part.outdated
    ]
    return "\n".join([title, *lines, *_legend(found.methods), *broken])


def _percent(score: float | None) -> str:
    return "" if score is None else f"{100 * score:.2f}"


def _cells(score: Interval | None) -> tuple[str, str]:
    """The mean, and what stands behind ±."""
    return ("", "") if score is None else (_percent(score.mean), _percent(score.half))


def _legend(methods: Sequence[MethodStatus]) -> list[str]:
    """What the columns of test scores are."""
    told = []
    tests = [part.test for part in methods if part.test is not None]
    if any(test.over == "folds" for test in tests):
        told.append(
            "test: mean of the folds' models; ±: their standard deviation with one seed, "
            "not a confidence interval"
        )
    elif any(test.half is not None for test in tests):
        told.append("test: mean of single models; ±: half the 95 % t-interval over repeats")
    if any(part.concatenated for part in methods):
        told.append("concatenated: the folds' embeddings side by side")
    return told


def remaining(seconds: float | None) -> str:
    """The time left, for people."""
    if seconds is None:
        return "the time left is not known yet"
    shown = f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
    return f"about {shown} left"
