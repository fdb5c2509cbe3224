"""A study of seconds, its command, and what must be the same however often it was disturbed."""

import dataclasses
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import sqlalchemy as sql
import yaml

from lookalike.study.ledger import engine_of
from lookalike.study.result_files import load_results

__all__ = [
    "LEASE",
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
LEASE = 2


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
    return ["study", "run", str(study), "--results", str(results), "--lease", str(LEASE), *options]


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


def records(url: str) -> int:
    """How many tasks of the study in a database are done; 0 while there is no such database."""
    file = url.removeprefix("sqlite:///")
    if file != url and not Path(file).exists():
        return 0  # do not make it here
    with suppress(sql.exc.SQLAlchemyError), engine_of(url).connect() as connection:
        query = "select count(*) from lookalike_work where record is not null"
        return int(connection.execute(sql.text(query)).scalar_one())
    return 0


def ledger_problems(url: str) -> list[str]:
    """Tasks that the database does not have, or has too many of, or that failed."""
    with engine_of(url).connect() as connection:
        rows = connection.execute(sql.text("select key, record from lookalike_work")).all()
    tasks = [row for row in rows if not row.key.startswith("optuna/")]
    problems = [f"{row.key} has no record" for row in rows if row.record is None]
    if len(tasks) != TASKS:
        problems.append(f"{len(tasks)} tasks instead of {TASKS}")
    for row in tasks:
        if row.record is not None and "error" in (record := json.loads(row.record)):
            problems.append(f"{row.key}: {record['error']}")
    return problems + optuna_problems(url)


def optuna_problems(url: str) -> list[str]:
    """Trials that Optuna's own tables do not have, or have twice."""
    with engine_of(url).connect() as connection:
        counts = connection.execute(
            sql.text(
                "select s.study_name, count(t.trial_id) as number from studies s "
                "left join trials t on t.study_id = s.study_id group by s.study_name"
            )
        ).all()
    found = [f"Optuna has {row.number} trials of {row.study_name}" for row in counts
             if row.number != TRIALS]  # fmt: skip
    if len(counts) != len(METHODS):
        found.append(f"Optuna has {len(counts)} studies instead of {len(METHODS)}")
    return found
