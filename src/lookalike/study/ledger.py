"""The records of a study's finished tasks: one SQLite file, which one process writes.

A task has a key, and its record is what it found. So that nothing is done twice, a second process
is refused while the first one works; when that ends, however it ends, the next one resumes.
"""

import json
import sqlite3
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from lookalike.errors import LookalikeError
from lookalike.files import checksum, locked, parse_json, refuse_journal

Made = TypeVar("Made")

DATABASE = "study.db"
"""The name of the file in the folder of a study; Optuna has its tables in it, too."""
BUSY_SECONDS = 2.0
"""How long to wait for a process that is about to end."""
CREATE = "CREATE TABLE IF NOT EXISTS records (key TEXT PRIMARY KEY, record TEXT, checksum TEXT)"


@contextmanager
def open_ledger(folder: Path) -> Iterator["Ledger"]:
    """The records of the study in a folder, for this process alone.

    Raises:
        LookalikeError: Another process works on the study, or the file cannot be used.
    """
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
        refuse_journal(path.with_name(f"{path.name}-journal"))
        # each statement is a transaction of its own: what is added is on disk
        self.connection = self._sentence(
            lambda: sqlite3.connect(path, timeout=60, isolation_level=None)
        )
        ((found,),) = self._execute("PRAGMA integrity_check(1)")
        if found != "ok":
            raise self.damaged(str(found).strip().partition("\n")[0])
        self._execute(CREATE)

    def add(self, records: Mapping[str, Mapping[str, Any]]) -> None:
        """Write records; one that is there already stays."""
        texts = {key: json.dumps(record) for key, record in records.items()}
        rows = [(key, text, checksum(text)) for key, text in texts.items()]
        self._sentence(
            lambda: self.connection.executemany(
                "INSERT OR IGNORE INTO records VALUES (?, ?, ?)", rows
            )
        )

    def remove(self, prefix: str) -> None:
        """Remove the records whose key begins with ``prefix``."""
        self._execute("DELETE FROM records WHERE substr(key, 1, ?) = ?", len(prefix), prefix)

    def records(self, prefixes: Collection[str]) -> dict[str, dict[str, Any]]:
        """The records whose key begins with one of ``prefixes``.

        Raises:
            LookalikeError: A record is not as it was written.
        """
        rows = self._execute("SELECT key, record, checksum FROM records")
        wanted = tuple(prefixes)
        return {key: self._parsed(key, *row) for key, *row in rows if key.startswith(wanted)}

    def _parsed(self, key: str, text: str, written: str) -> dict[str, Any]:
        if checksum(text) != written:
            raise self.damaged(f"the record of {key}")
        return dict(parse_json(text))

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
