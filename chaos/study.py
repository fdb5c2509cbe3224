"""A study of seconds, its command, and what must be the same however often it was disturbed."""

import dataclasses
import json
import sqlite3
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import yaml

from lookalike.study.ledger import DATABASE
from lookalike.study.result_files import load_results

__all__ = [
    "TASKS",
    "findings",
    "ledger_problems",
    "records",
    "study_command",
    "write_study",
]

METHODS, TRIALS, FOLDS, REPEATS = ("triplet", "proxy-anchor"), 3, 2, 1
TASKS = 1 + len(METHODS) * (TRIALS * FOLDS + REPEATS)
"""The baselines, and of each method a task for each fold of a trial and for each repeat."""


def write_study(folder: Path, pictures: Path) -> Path:
    """The file of the study; its runs are beside it."""
    path = folder / "small.yaml"
    values = {
        "name": "small",
        "data": {"name": "folder", "root": str(pictures), "transform": "none"},
        "base": {
            "runs_dir": str(folder / "runs"),
            "model": {"network": "small-cnn", "weights": "none", "dim": 8},
            "sampler": {"name": "spc", "batch_size": 6, "per_class": 2},
            "train": {"epochs": 2, "batches_per_epoch": 5, "device": "cpu"},
        },
        "methods": list(METHODS),
        "protocol": {"folds": FOLDS, "metrics": ["recall@1", "map@r"]},
        "tuner": {"trials": TRIALS},
        "repeats": REPEATS,
    }
    path.write_text(yaml.safe_dump(values))
    return path


def study_command(study: Path, results: Path, *options: str) -> list[str]:
    """The arguments of ``lookalike`` that run the study."""
    return ["study", "run", str(study), "--results", str(results), *options]


def findings(results: Path) -> list[dict[str, Any]]:
    """Everything that the study found, but how long it took."""

    def bare(row: Any) -> dict[str, Any]:
        values: dict[str, Any] = dataclasses.asdict(row)
        values.pop("seconds", None)
        for part in (*values.get("trials", ()), *values.get("repeats", ())):
            del part["seconds"]
        return values

    found = load_results(results)
    return [bare(row) for row in (*found.rows, *found.baselines)]


def records(results: Path) -> int:
    """How many tasks of a study are done; 0 while it has no database."""
    with suppress(sqlite3.Error):
        return int(query(results, "select count(*) from records")[0][0])
    return 0


def query(results: Path, statement: str) -> list[Any]:
    """What the database of a study answers; one that is not there is not made."""
    address = f"file:{(results / DATABASE).resolve()}?mode=ro"
    with closing(sqlite3.connect(address, uri=True)) as connection:
        return connection.execute(statement).fetchall()


def ledger_problems(results: Path) -> list[str]:
    """Tasks that the database does not have, or has too many of, or that failed."""
    rows = query(results, "select key, record from records")
    problems = [] if len(rows) == TASKS else [f"{len(rows)} tasks instead of {TASKS}"]
    for key, record in rows:
        if "error" in (values := json.loads(record)):
            problems.append(f"{key}: {values['error']}")
    return problems + optuna_problems(results)


def optuna_problems(results: Path) -> list[str]:
    """Trials that Optuna's own tables do not have, or have twice."""
    counts = query(
        results,
        "select s.study_name, count(t.trial_id) from studies s "
        "left join trials t on t.study_id = s.study_id group by s.study_name",
    )
    found = [f"Optuna has {number} trials of {name}" for name, number in counts
             if number != TRIALS]  # fmt: skip
    if len(counts) != len(METHODS):
        found.append(f"Optuna has {len(counts)} studies instead of {len(METHODS)}")
    return found
