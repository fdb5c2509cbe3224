"""A study of seconds, its command, and what must be the same however often it was disturbed."""

import dataclasses
import json
import sqlite3
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import yaml

from lookalike.study.methods import SHRINKS
from lookalike.study.table import DATABASE, load_results

__all__ = [
    "TASKS",
    "findings",
    "ledger_problems",
    "records",
    "study_command",
    "write_study",
]

METHODS, TRIALS, FOLDS, REPEATS = ("triplet", "proxy-anchor"), 3, 2, 1
TASKS = 3 + len(SHRINKS) * FOLDS + len(METHODS) * (TRIALS * FOLDS + REPEATS)
"""Of each method, and of LDA, a task for each fold of a trial, and each repeat; three baselines."""


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
        return int(query(results, "select count(*) from tasks")[0][0])
    return 0


def query(results: Path, statement: str) -> list[Any]:
    """What the database of a study answers; one that is not there is not made."""
    address = f"file:{(results / DATABASE).resolve()}?mode=ro"
    with closing(sqlite3.connect(address, uri=True)) as connection:
        return connection.execute(statement).fetchall()


def ledger_problems(results: Path) -> list[str]:
    """Tasks that the database does not have, or has too many of, or that failed."""
    rows = query(results, "select trial, fold, repeat, facts from tasks")
    problems = [] if len(rows) == TASKS else [f"{len(rows)} tasks instead of {TASKS}"]
    for *key, facts in rows:
        if error := json.loads(facts)["error"]:
            problems.append(f"{key}: {error}")
    return problems
