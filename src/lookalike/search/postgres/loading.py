"""Pictures into the tables: one COPY in binary format, straight into the table."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from pgvector import HalfVector, Vector
from psycopg.types.json import Jsonb

from lookalike.inference.encoder import Vectors
from lookalike.search.items import Record
from lookalike.search.postgres.database import Statements
from lookalike.search.postgres.schema import FIELDS

TYPES = ("text", "text", "jsonb", "int4", "int8", "int8")
"""Of ``FIELDS``."""
KINDS = {"vector": Vector, "halfvec": HalfVector}

LOCK = "SELECT pg_advisory_xact_lock(hashtext(%s))"
REPLACED = """
DELETE FROM {schema}.item i USING unnest(%s::integer[], %s::text[]) AS fresh (root, path)
WHERE i.root = fresh.root AND i.path = fresh.path
"""
COLUMN = "INSERT INTO {schema}.metadata_column VALUES (%s) ON CONFLICT DO NOTHING"
STATE = """
UPDATE {schema}.model SET generation = generation + 1, count = count + %s,
    updated = greatest(updated, extract(epoch FROM clock_timestamp()))
"""


@dataclass(frozen=True)
class Load:
    """Pictures to add and ids to drop; doing it twice is doing it once.

    Args:
        records: The pictures; of several with one root and path the last one stays.
        vectors: Their unit vectors.
        dropped: Ids that go; unknown ones are passed over.
        kind: The type of vectors: ``vector`` or ``halfvec``.
    """

    records: Sequence[Record]
    vectors: Vectors
    dropped: Iterable[int]
    kind: str

    def __call__(self, run: Statements) -> None:
        """Do it, in the transaction of ``run`` and one process at a time."""
        run(LOCK, [run.schema])
        last = {record.key: row for row, record in enumerate(self.records)}
        rows = list(last.values())
        records = [self.records[row] for row in rows]
        gone = run("DELETE FROM {schema}.item WHERE id = ANY(%s)", [list(self.dropped)]).rowcount
        if records:
            keys = [[r.root for r in records], [r.path for r in records]]
            gone += run(REPLACED, keys).rowcount
            self._copy(run, records, rows)
            names = {name for record in records for name in record.metadata}
            run.cursor.executemany(run.compose(COLUMN), [[name] for name in sorted(names)])
        run(STATE, [len(records) - gone])

    def _copy(self, run: Statements, records: Sequence[Record], rows: Sequence[int]) -> None:
        statement = f"COPY {{schema}}.item ({FIELDS}, embedding) FROM STDIN (FORMAT BINARY)"
        adapt = KINDS[self.kind]
        with run.cursor.copy(run.compose(statement)) as copy:
            copy.set_types([*TYPES, self.kind])
            for record, row in zip(records, rows, strict=True):
                known = (record.path, record.label, Jsonb(record.metadata))
                numbers = (record.root, record.size, record.modified)
                vector = adapt(np.asarray(self.vectors[row], np.float32))
                copy.write_row((*known, *numbers, vector))


@dataclass(frozen=True)
class NewRoot:
    """A folder that gets the next number; numbers never change."""

    path: Path

    def __call__(self, run: Statements) -> None:
        """Store it unless it is there."""
        run(LOCK, [run.schema])
        stored = [row[0] for row in run("SELECT path FROM {schema}.root ORDER BY number")]
        if str(self.path) not in stored:
            run("INSERT INTO {schema}.root VALUES (%s, %s)", [len(stored), str(self.path)])
