"""The one file of a study, ``study.db`` (SQLite), which one process writes.

    study         its name, metric, settings and facts of its data sets, each as JSON
    rows          the rows that it asks for: data set, label, settings
    tasks         one fold of one trial, or one repeat of the winner: seconds, error, parameters
    scores        task, fold (-1: all, concatenated), metric, value
    class_scores  task, metrics and classes, and one compressed array of scores
    test_sets     the test classes, and the queries of each
    results       the first four as one long table, for those who use SQL

What a task found is one transaction. A second process that runs the study is refused while the
first one works; when that ends, however it ends, the next one resumes. Everything that shows or
compares results reads this file with :func:`load_results` and :func:`class_scores`.
"""

import json
import lzma
import math
import re
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import asdict, fields
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np
from pydantic import TypeAdapter, ValidationError

from lookalike.errors import BadInput, LookalikeError
from lookalike.files import MOST_UNPACKED_BYTES, locked, parse_json, refuse_links
from lookalike.study.records import JOINED, Record, Records, TaskKey, baseline_of, row_of
from lookalike.study.results import (
    BaselineRow,
    Cell,
    MethodRow,
    PlannedRow,
    RowClasses,
    StudyResults,
    best_trial,
)

if TYPE_CHECKING:
    from lookalike.evaluation.class_table import ClassTable

Made = TypeVar("Made")

DATABASE = "study.db"
"""The name of the file in the folder of a study."""
FORMAT = 1
"""Version of the tables; files of another version are an error."""
BUSY_SECONDS = 2.0
"""How long to wait for a process that is about to end."""
TABLES = f"""
PRAGMA user_version = {FORMAT};
CREATE TABLE study (name TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID;
CREATE TABLE rows (
    id INTEGER PRIMARY KEY, position INTEGER, dataset TEXT, label TEXT, baseline_of TEXT,
    settings TEXT, UNIQUE (dataset, label, baseline_of)
);
CREATE TABLE tasks (
    id INTEGER PRIMARY KEY, row INTEGER, trial INTEGER, fold INTEGER, repeat INTEGER, facts TEXT,
    UNIQUE (row, trial, fold, repeat)
);
CREATE TABLE scores (
    task INTEGER REFERENCES tasks ON DELETE CASCADE, fold INTEGER, metric TEXT, value REAL
);
CREATE TABLE class_scores (
    task INTEGER REFERENCES tasks ON DELETE CASCADE, folds TEXT, metrics TEXT, test_set INTEGER,
    content BLOB
);
CREATE TABLE test_sets (
    id INTEGER PRIMARY KEY, classes TEXT, queries TEXT, UNIQUE (classes, queries)
);
CREATE INDEX scores_of_task ON scores (task);
CREATE INDEX class_scores_of_task ON class_scores (task);
CREATE VIEW results AS
    SELECT dataset, label, baseline_of, trial, repeat, scores.fold, metric, value
    FROM scores JOIN tasks ON tasks.id = scores.task JOIN rows ON rows.id = tasks.row;
"""


def is_study(folder: Path) -> bool:
    """Whether a folder holds the results of a study."""
    return (folder / DATABASE).is_file()


def load_results(folder: Path | str) -> StudyResults:
    """The study in a folder, finished or not, and all its rows that have begun.

    Args:
        folder: The folder of a ``study.db``.

    Returns:
        The results.

    Raises:
        BadInput: There is no study in it, or its file is not as a study writes it.
    """
    with _reading(Path(folder)) as table:
        return table.results()


def class_scores(folder: Path, row: MethodRow | BaselineRow) -> RowClasses:
    """The scores per test class of a row; empty where they were not kept.

    Args:
        folder: The folder of the study.
        row: One of its rows.

    Returns:
        The scores of each model, and of each repeat's concatenated embeddings.
    """
    with _reading(folder) as table:
        return table.class_scores(row)


@contextmanager
def open_table(folder: Path) -> Iterator["StudyTable"]:
    """The file of the study in a folder, for this process alone; it is created.

    Raises:
        LookalikeError: Another process works on the study, or the file cannot be used.
        BadInput: There is a link in the folder, or a journal that names another file: SQLite writes
            to whatever its files lead to.
    """
    folder.mkdir(parents=True, exist_ok=True)
    refuse_links(folder)
    path = folder / DATABASE
    with locked(path.with_suffix(".lock"), BUSY_SECONDS) as mine, _sentences(path):
        if not mine:
            raise LookalikeError(
                f"another process runs the study in '{folder}': wait for it, or stop it"
            )
        with closing(sqlite3.connect(path, timeout=60)) as connection:
            connection.execute("PRAGMA foreign_keys = ON")
            if not connection.execute("SELECT * FROM sqlite_master").fetchall():
                connection.executescript(f"BEGIN; {TABLES} COMMIT")
            yield StudyTable(path, connection)


@contextmanager
def _reading(folder: Path) -> Iterator["StudyTable"]:
    """The file of a study, which may be a stranger's: nothing is written."""
    path = folder / DATABASE
    if not path.is_file():
        raise BadInput(f"'{folder}' does not hold a study: it has no {DATABASE}")
    with (
        _sentences(path),
        closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection,
    ):
        yield StudyTable(path, connection)


@contextmanager
def _sentences(path: Path) -> Iterator[None]:
    """Say in one sentence why the file cannot be used."""
    try:
        yield
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part)[:80] for part in first["loc"])
        raise BadInput(f"'{path}': {place}: {' '.join(first['msg'].split())[:300]}") from error
    except (sqlite3.Error, UnicodeDecodeError, lzma.LZMAError) as error:
        raise LookalikeError(
            f"'{path}' cannot be used: {' '.join(str(error).split())[:300]}; free space on its "
            "disk if that is full; if not, put a copy in its place, or remove it to begin anew"
        ) from error
    except (LookupError, TypeError, ValueError) as error:
        if isinstance(error, LookalikeError):
            raise
        reason = " ".join(str(error).split())[:300]
        raise BadInput(f"'{path}' has another content than a study writes: {reason}") from error


class StudyTable:
    """The tables of one study.

    Args:
        path: The file, for messages.
        connection: Its database.
    """

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path = path
        self.connection = connection
        ((version,),) = connection.execute("PRAGMA user_version")
        if version != FORMAT:
            raise BadInput(f"'{path}' has the format {version}, and this version reads {FORMAT}")

    def write_plan(self, values: Mapping[str, Any], rows: list[PlannedRow]) -> None:
        """Write what the study asks for; rows that it no longer asks for stay, unseen."""
        with self.connection:
            for name, value in values.items():
                entry = name, json.dumps(without_folders(value))
                self.connection.execute("INSERT OR REPLACE INTO study VALUES (?, ?)", entry)
            self.connection.execute("UPDATE rows SET position = NULL")
            for position, row in enumerate(rows):
                self.connection.execute(
                    "INSERT INTO rows (position, dataset, label, baseline_of, settings) "
                    "VALUES (?, ?, ?, ?, ?) ON CONFLICT (dataset, label, baseline_of) DO UPDATE "
                    "SET position = excluded.position, settings = excluded.settings",
                    (position, *_place(row), json.dumps(without_folders(asdict(row)))),
                )

    def add(self, row: PlannedRow, key: TaskKey, record: Record) -> None:
        """Write what a task found, in the place of what was there."""
        facts = {
            one.name: getattr(record, one.name)
            for one in fields(record)
            if one.name not in ("scores", "classes", "unwritten")
        }
        with self.connection:
            insert = "INSERT OR REPLACE INTO tasks (row, trial, fold, repeat, facts) "
            entry = self._row_id(row), *key, json.dumps(without_folders(facts))
            task = self.connection.execute(f"{insert} VALUES (?, ?, ?, ?, ?)", entry).lastrowid
            self.connection.executemany(
                "INSERT INTO scores VALUES (?, ?, ?, ?)",
                [
                    (task, fold, metric, value)
                    for fold, scores in record.scores.items()
                    for metric, value in scores.items()
                ],
            )
            if record.classes:
                self._add_classes(task, record.classes)

    def restart(self, row: PlannedRow) -> None:
        """Remove everything that was found for a row."""
        with self.connection:
            self.connection.execute("DELETE FROM tasks WHERE row = ?", (self._row_id(row),))

    def row(self, planned: PlannedRow) -> PlannedRow | None:
        """The row of the same name, as it was planned before."""
        select = "SELECT settings FROM rows WHERE (dataset, label, baseline_of) = (?, ?, ?)"
        found = self.connection.execute(select, _place(planned)).fetchone()
        return None if found is None else _parsed(PlannedRow, parse_json(found[0]))

    def records(self, row: PlannedRow) -> dict[TaskKey, Record]:
        """What the tasks of a row found, without the scores per class."""
        own = "FROM tasks WHERE row = ? ORDER BY id"
        number = self._row_id(row)
        scores: dict[int, dict[int, dict[str, Any]]] = {}
        for task, fold, metric, value in self.connection.execute(
            f"SELECT task, fold, metric, value FROM scores WHERE task IN (SELECT id {own}) "
            "ORDER BY scores.rowid",
            (number,),
        ):
            score = math.nan if value is None else value
            scores.setdefault(task, {}).setdefault(fold, {})[metric] = score
        return {
            TaskKey(*map(int, key)): _parsed(
                Record, parse_json(facts) | {"scores": scores.get(task, {})}
            )
            for task, *key, facts in self.connection.execute(
                f"SELECT id, trial, fold, repeat, facts {own}", (number,)
            )
        }

    def results(self) -> StudyResults:
        """Everything that the study has found."""
        head = {name: parse_json(v) for name, v in self.connection.execute("SELECT * FROM study")}
        select = "SELECT settings FROM rows WHERE position IS NOT NULL ORDER BY position"
        found: list[tuple[PlannedRow, Records]] = []
        for (settings,) in self.connection.execute(select).fetchall():
            planned = _parsed(PlannedRow, parse_json(settings))
            found.append((planned, self.records(planned)))
        rows = [(planned, row_of(planned, one, head["metric"])) for planned, one in found if one]
        baselines = [baseline_of(planned, row) for planned, row in rows if planned.baseline]
        values = {
            "folder": self.path.parent,
            "planned": [planned for planned, _ in found if not planned.baseline],
            "rows": [row for planned, row in rows if not planned.baseline],
            "baselines": [row for row in baselines if row is not None],
        }
        return _parsed(StudyResults, head | values)

    def class_scores(self, row: MethodRow | BaselineRow) -> RowClasses:
        """The scores per test class of the trial that won."""
        if isinstance(row, BaselineRow):
            place, trial = (row.dataset, row.baseline, row.group or row.dataset), None
        else:
            best = best_trial(row.trials, row.trials_asked)
            place, trial = (row.dataset, row.label, ""), best.number if best else None
        separate: dict[Cell, ClassTable] = {}
        concatenated: dict[int, ClassTable] = {}
        for at, repeat, *stored in self.connection.execute(
            "SELECT trial, repeat, folds, metrics, classes, queries, content FROM class_scores "
            "JOIN tasks ON tasks.id = task JOIN test_sets ON test_sets.id = test_set "
            "JOIN rows ON rows.id = row WHERE (dataset, label, baseline_of) = (?, ?, ?)",
            place,
        ):
            if trial is None or at == trial:
                for fold, table in _unpacked(*stored):
                    if fold == JOINED:
                        concatenated[repeat] = table
                    else:
                        separate[repeat, fold] = table
        return RowClasses(separate, concatenated)

    def _add_classes(self, task: int | None, tables: Mapping[int, "ClassTable"]) -> None:
        """Write scores per class as [metric, class, fold] in single precision."""
        first = next(iter(tables.values()))
        names = json.dumps(first.classes), json.dumps(first.queries.tolist())
        self.connection.execute(
            "INSERT OR IGNORE INTO test_sets (classes, queries) VALUES (?, ?)", names
        )
        select = "SELECT id FROM test_sets WHERE (classes, queries) = (?, ?)"
        ((test_set,),) = self.connection.execute(select, names)
        columns = [[table.column(metric) for table in tables.values()] for metric in first.metrics]
        values = np.array(columns, "<f4").transpose(0, 2, 1)
        content = lzma.compress(np.ascontiguousarray(values).tobytes())
        entry = task, json.dumps(list(tables)), json.dumps(first.metrics), test_set, content
        self.connection.execute("INSERT INTO class_scores VALUES (?, ?, ?, ?, ?)", entry)

    def _row_id(self, row: PlannedRow) -> int:
        select = "SELECT id FROM rows WHERE (dataset, label, baseline_of) = (?, ?, ?)"
        return int(self.connection.execute(select, _place(row)).fetchone()[0])


def _unpacked(
    folds: str, metrics: str, classes: str, queries: str, content: bytes
) -> Iterator[tuple[int, "ClassTable"]]:
    """The scores per class of a task, by fold."""
    from lookalike.evaluation.class_table import ClassTable  # loads torch

    of_folds, of_metrics = parse_json(folds), tuple(map(str, parse_json(metrics)))
    names, counts = tuple(map(str, parse_json(classes))), np.array(parse_json(queries), np.int64)
    shape = len(of_metrics), len(names), len(of_folds)
    size = 4 * math.prod(shape)
    if counts.shape != shape[1:2] or size > MOST_UNPACKED_BYTES:
        raise ValueError("the scores per class have another shape")
    unpacked = lzma.LZMADecompressor(memlimit=2**28).decompress(content, size + 1)
    values = np.frombuffer(unpacked, "<f4").reshape(shape).astype(np.float64)
    for at, fold in enumerate(of_folds):
        yield int(fold), ClassTable(names, counts, of_metrics, values[:, :, at].T)


def _place(row: PlannedRow) -> tuple[str, str, str]:
    return row.dataset, row.label, (row.group or row.dataset) if row.baseline else ""


def _parsed(kind: type[Made], values: Any) -> Made:
    return cast(Made, _adapter(cast(Any, kind)).validate_python(values))


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def without_folders(value: Any) -> Any:
    """A value of JSON whose texts have only the last part of paths: results are shown to others.

    >>> without_folders("cannot read the image '/home/me/photos/1.jpg': broken")
    "cannot read the image '1.jpg': broken"
    >>> without_folders(["/home/my self/weights.pt", "https://example.org/a/b"])
    ['weights.pt', 'https://example.org/a/b']
    """
    if isinstance(value, Mapping):
        return {key: without_folders(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [without_folders(one) for one in value]
    if not isinstance(value, str):
        return value
    if value.startswith(("/", "~/")) and "\n" not in value:
        return value.rstrip("/").rpartition("/")[2]
    return re.sub(r"(?<![\w:/.])~?/(?:[^\s/'\"]+/)+", "", value)
