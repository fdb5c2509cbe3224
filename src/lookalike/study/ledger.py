"""The records of a study's finished tasks: one SQLite file, which one process writes.

A task has a key, and its record is what it found. So that nothing is done twice, a second process
is refused while the first one works; when that ends, however it ends, the next one resumes.
"""

import json
import sqlite3
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from lookalike.errors import LookalikeError
from lookalike.files import checksum, locked, parse_json, refuse_links
from lookalike.study.classes import RowClasses

Made = TypeVar("Made")

DATABASE = "study.db"
"""The name of the file in the folder of a study; Optuna has its tables in it, too."""
BUSY_SECONDS = 2.0
"""How long to wait for a process that is about to end."""
TABLES = (
    "CREATE TABLE IF NOT EXISTS records (key TEXT PRIMARY KEY, record TEXT, checksum TEXT)",
    "CREATE TABLE IF NOT EXISTS classes "
    "(key TEXT, name TEXT, tables BLOB, PRIMARY KEY (key, name))",
)
CLASSES = "classes"
"""The key of a record that has scores per test class, by name; they have their own table."""


@contextmanager
def open_ledger(folder: Path) -> Iterator["Ledger"]:
    """The records of the study in a folder, for this process alone.

    Raises:
        LookalikeError: Another process works on the study, or the file cannot be used.
        BadInput: There is a link in the folder, or a journal that names another file: SQLite writes
            to whatever its files lead to.
    """
    folder.mkdir(parents=True, exist_ok=True)
    refuse_links(folder)
    path = folder / DATABASE
    with locked(path.with_suffix(".lock"), BUSY_SECONDS) as mine:
        if not mine:
            raise LookalikeError(
                f"another process runs the study in '{folder}': wait for it, or stop it"
            )
        ledger = Ledger(path)
        try:
            yield ledger
        finally:
            ledger.connection.close()


class Ledger:
    """The records in one file.

    Args:
        path: The file; it is created.

    Raises:
        LookalikeError: It is damaged, or cannot be written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        # each statement is a transaction of its own: what is added is on disk
        self.connection = self._sentence(
            lambda: sqlite3.connect(path, timeout=60, isolation_level=None)
        )
        ((found,),) = self._execute("PRAGMA integrity_check(1)")
        if found != "ok":
            raise self.damaged(str(found).strip().partition("\n")[0])
        for create in TABLES:
            self._execute(create)

    def add(self, key: str, record: Mapping[str, Any]) -> None:
        """Write the record of a task, after its scores per class; one that is there stays."""
        for name, found in record.get(CLASSES, {}).items():
            insert = "INSERT OR REPLACE INTO classes VALUES (?, ?, ?)"
            self._execute(insert, key, name, found.as_bytes())
        text = json.dumps({name: value for name, value in record.items() if name != CLASSES})
        insert = "INSERT OR IGNORE INTO records VALUES (?, ?, ?)"
        self._execute(insert, key, text, checksum(text))

    def remove(self, prefix: str) -> None:
        """Remove the records whose key begins with ``prefix``."""
        for table in ("records", "classes"):
            self._execute(f"DELETE FROM {table} WHERE substr(key, 1, ?) = ?", len(prefix), prefix)

    def records(self, prefixes: Collection[str]) -> dict[str, dict[str, Any]]:
        """The records whose key begins with one of ``prefixes``.

        Raises:
            LookalikeError: A record is not as it was written.
        """
        rows = self._execute("SELECT CAST(key AS TEXT), record, checksum FROM records")
        wanted = tuple(prefixes)
        found = {
            key: self._parsed(key, *row) for key, *row in rows if key and key.startswith(wanted)
        }
        for key, name, tables in self._execute("SELECT key, name, tables FROM classes"):
            if key in found:
                found[key].setdefault(CLASSES, {})[name] = self._tables(key, tables)
        return found

    def _parsed(self, key: str, text: Any, written: Any) -> dict[str, Any]:
        """The record of a task; SQLite keeps a value of any type in any column."""
        if isinstance(text, str) and checksum(text) == written:
            with suppress(ValueError):
                found = parse_json(text)
                if isinstance(found, dict) and CLASSES not in found:
                    return found
        raise self.damaged(f"the record of {key}")

    def _tables(self, key: str, content: bytes) -> RowClasses:
        try:
            return RowClasses.from_bytes(content)
        except Exception as error:  # NumPy and zlib raise almost anything for a damaged file
            raise self.damaged(f"the scores per class of {key}") from error

    def _execute(self, statement: str, *values: Any) -> list[Any]:
        return self._sentence(lambda: self.connection.execute(statement, values).fetchall())

    def _sentence(self, work: Callable[[], Made]) -> Made:
        """The result of ``work``, or one sentence about why the file cannot be used."""
        try:
            return work()
        except sqlite3.Error as error:
            raise self.damaged(str(error)) from error
        except UnicodeDecodeError as error:  # SQLite's message has damaged text in it
            raise self.damaged("it is malformed") from error

    def damaged(self, what: str) -> LookalikeError:
        """The error for a file that cannot be read or written."""
        return LookalikeError(
            f"'{self.path}' cannot be used: {what}; free space on its disk if that is full; if "
            "not, remove the file and run the same command, which keeps the rows that are stored "
            "beside it"
        )
