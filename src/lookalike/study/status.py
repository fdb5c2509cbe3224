"""The progress of a study, read from its files."""

import math
from pathlib import Path
from typing import Any

from lookalike.progress import duration
from lookalike.study.intervals import Interval
from lookalike.study.results import MethodRow, PlannedRow, label_of
from lookalike.study.table import load_results

Status = dict[str, Any]


def status_of(folder: Path) -> Status:
    """The progress of the study in a folder, and of each of its methods.

    ``seconds_left`` is at the mean time of a training so far, with the same workers; None before
    the first. Test scores are an :class:`Interval`, and None before all repeats are tested.
    """
    found = load_results(folder)
    rows = {(row.dataset, row.label): row for row in found.rows}
    methods = [
        _row_status(found.metric, one, rows.get(one.key), found.chosen) for one in found.planned
    ]
    done = sum(
        sum(max(1, len(trial.folds)) for trial in row.trials) + row.seeds * one.folds
        for one in found.planned
        if (row := rows.get(one.key)) is not None
    )
    left = sum(map(_runs_left, methods))
    spent = sum(row.seconds for row in found.rows) / max(1, int(found.study.get("workers", 1)))
    baselines: dict[str, dict[str, dict[str, float | None]]] = {name: {} for name in found.facts}
    for base in found.baselines if found.chosen else ():
        baselines.setdefault(base.group or base.dataset, {})[base.baseline] = {
            "test": base.score(found.metric, "separate"),
            "concatenated": base.score(found.metric) if len(base.separate) > 1 else None,
        }
    return {
        "name": found.name,
        "folder": str(folder),
        "metric": found.metric,
        "finished": left == 0,
        "runs_done": done,
        "runs_left": left,
        "seconds_left": (spent / done * left if done else None) if left else 0.0,
        "baselines": baselines,
        "methods": methods,
    }


def _row_status(metric: str, planned: PlannedRow, row: MethodRow | None, chosen: bool) -> Status:
    """The progress of one row; without test scores until every winner is ``chosen``."""
    dataset, method, folds = planned.dataset, planned.method, planned.folds
    if row is None:  # not begun
        trials, repeats = planned.trials, planned.repeats
        row = MethodRow(dataset, method, {}, {}, None, trials_asked=trials, repeats_asked=repeats)
    tested = chosen and row.seeds > 0 and row.seeds == row.repeats_asked
    errors = [trial.error for trial in row.trials if trial.error] + list(row.errors)
    return {
        "dataset": dataset,
        "method": method,
        "axes": planned.axes,
        "folds": folds,
        "validated": row.validated,
        "trials": len(row.trials),
        "trials_asked": row.trials_asked,
        "failed": row.failed + len(row.errors),
        "pruned": row.pruned,
        "repeats": row.seeds,
        "repeats_asked": row.repeats_asked - len(row.errors),
        "best": max(row.values, default=None),
        "test": row.interval(metric, "separate") if tested else None,
        "concatenated": row.interval(metric) if tested and folds > 1 else None,
        "chosen": chosen,
        "times_read": row.times_read,
        "read_again": row.read_again if chosen else "",
        "seconds": row.seconds,
        "error": errors[0] if errors else "",
        "outdated": row.outdated,
    }


def _runs_left(part: Status) -> int:
    """How many trainings are left, at most."""
    trials, repeats = (part[f"{name}_asked"] - part[name] for name in ("trials", "repeats"))
    if trials <= 0 and part["trials"] and part["best"] is None:
        return 0
    return int((trials + repeats) * part["folds"])


def status_table(found: Status) -> str:
    """The status as a table of text."""
    head = [
        "data",
        "row" if any(part["axes"] for part in found["methods"]) else "method",
        "trials",
        "failed",
        "pruned",
        "best",
        "repeats",
        "test",
        "±",
        "models",
    ]
    rows = [(*head, "concatenated", "±")]
    rows += [
        (
            part["dataset"],
            label_of(part["method"], part["axes"]),
            f"{part['trials']}/{part['trials_asked']}" if part["trials_asked"] else "–",
            str(part["failed"] or ""),
            str(part["pruned"] or ""),
            _percent(part["best"]),
            f"{part['repeats']}/{part['repeats_asked']}",
            *_cells(part["test"]),
            _percent(part["test"] and part["test"].models),
            *_cells(part["concatenated"]),
        )
        for part in found["methods"]
    ]
    rows += [
        (dataset, name, *[""] * 5, _percent(one["test"]), "", "", _percent(one["concatenated"]), "")
        for dataset, baselines in found["baselines"].items()
        for name, one in baselines.items()
    ]
    columns = [
        [cell.ljust(width) if number < 2 else cell.rjust(width) for cell in column]
        for number, column in enumerate(zip(*rows, strict=True))
        if number < 9 or any(column[1:])
        for width in [max(map(len, column))]
    ]
    lines = ["  ".join(row).rstrip() for row in zip(*columns, strict=True)]
    seconds = found["seconds_left"]
    time = "the time left is not known yet"
    if found["finished"]:
        time = "finished"
    elif seconds is not None:
        time = f"about {duration(seconds)} left"
    title = f"{found['name']}: {found['metric']} in per cent, {found['runs_done']} trainings done"
    problems = [
        f"{part['dataset']} {label_of(part['method'], part['axes'])}: {before}{part[kind]}"
        for kind, before in (
            ("error", ""),
            ("outdated", "outdated until trained again: "),
            ("read_again", ""),
        )
        for part in found["methods"]
        if part[kind]
    ]
    return "\n".join([f"{title}, {time}", *lines, *_legend(found["methods"]), *problems])


def _percent(score: float | None) -> str:
    return "" if score is None or math.isnan(score) else f"{100 * score:.2f}"


def _cells(score: Interval | None) -> tuple[str, str]:
    return ("", "") if score is None else (_percent(score.mean), _percent(score.half))


def _legend(methods: list[Status]) -> list[str]:
    """Explanations of the columns of test scores."""
    lines = []
    if not all(part["chosen"] for part in methods):
        lines.append("no test score is shown, or read, before every winner is chosen")
    tests = [part["test"] for part in methods if part["test"] is not None]
    of_folds = any(part["concatenated"] for part in methods)
    if any(test.over == "folds" for test in tests):
        lines.append(
            "test: mean of the folds' separate models; ±: their standard deviation with one seed, "
            "not a confidence interval"
        )
    elif tests:
        what = "mean of the folds' separate models" if of_folds else "mean of single models"
        interval = (
            "; ±: half the 95 % t-interval of the mean over repeats; models: standard deviation of "
            "single models"
        )
        lines.append(f"test: {what}{interval if any(t.half is not None for t in tests) else ''}")
    if of_folds:
        lines.append("concatenated: the folds' embeddings, concatenated")
    if any(not part["validated"] for part in methods):
        lines.append("no validation (protocol.name=paper): the last epoch is tested")
    return lines
