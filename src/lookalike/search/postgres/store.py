"""The schema of an index in PostgreSQL: made, written to, and given its graph.

Pictures come into the tables by one COPY in binary format.
"""

from collections.abc import Iterable, Sequence
from functools import cached_property, partial
from pathlib import Path

import numpy as np
import psycopg
from psycopg.sql import SQL
from psycopg.types.json import Jsonb

from lookalike.addresses import parse_address
from lookalike.errors import BadInput
from lookalike.inference.embedder import Blueprint, Embedder, parse_settings
from lookalike.inference.encoder import Vectors
from lookalike.progress import Watcher
from lookalike.search.contents import Address, State, Store
from lookalike.search.items import Precision, Record
from lookalike.search.postgres import graph
from lookalike.search.postgres.contents import FIELDS, KINDS, PostgresContents, Tables
from lookalike.search.postgres.database import Database, Statements, connected, first_line
from lookalike.search.vectors import NEIGHBOURS

EXACT_BELOW = 10_000
VERSION = 3
TYPE_OF = {"float32": "vector", "float16": "halfvec"}
TYPES = ("text", "text", "jsonb", "int4", "int8", "int8")
"""Of ``FIELDS``."""

TABLES = """
CREATE SCHEMA {schema};
CREATE TABLE {schema}.model (
    version integer NOT NULL, settings text, weights bytea, fingerprint text NOT NULL,
    dim integer NOT NULL, kind text NOT NULL, generation bigint NOT NULL DEFAULT 0,
    updated double precision NOT NULL DEFAULT extract(epoch FROM clock_timestamp()),
    count bigint NOT NULL DEFAULT 0, ef_search integer, recall double precision, sample integer,
    CHECK ((settings IS NULL) = (weights IS NULL) AND (settings IS NULL) = (fingerprint = ''))
);
CREATE TABLE {schema}.root (number integer PRIMARY KEY, path text UNIQUE NOT NULL);
CREATE TABLE {schema}.metadata_column (name text PRIMARY KEY);
CREATE TABLE {schema}.item (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    root integer NOT NULL REFERENCES {schema}.root, path text NOT NULL, label text,
    metadata jsonb NOT NULL, size bigint NOT NULL, modified bigint NOT NULL,
    embedding {kind}({dim}) NOT NULL, UNIQUE (root, path)
);
CREATE INDEX ON {schema}.item (label);
"""
LOCK = "SELECT pg_advisory_xact_lock(hashtext(%s))"
REPLACED = """
DELETE FROM {schema}.item i USING unnest(%s::integer[], %s::text[]) AS fresh (root, path)
WHERE i.root = fresh.root AND i.path = fresh.path
"""
COLUMN = "INSERT INTO {schema}.metadata_column VALUES (%s) ON CONFLICT DO NOTHING"
CHANGED = """
UPDATE {schema}.model SET generation = generation + 1, count = count + %s,
    updated = greatest(updated, extract(epoch FROM clock_timestamp()))
"""

MODEL = """
INSERT INTO {schema}.model (version, settings, weights, fingerprint, dim, kind)
VALUES (%s, %s, %s, %s, %s, %s)
"""
SERVER = """
SELECT (SELECT extversion FROM pg_extension WHERE extname = 'vector'),
    EXISTS (SELECT 1 FROM pg_collation WHERE collname = 'pg_c_utf8')
"""
STATE = """
SELECT fingerprint, dim, kind, generation, updated, count, ef_search, recall, sample,
    ARRAY(SELECT path FROM {schema}.root ORDER BY number) FROM {schema}.model
"""


class PostgresStore(Store[PostgresContents]):
    """An index in a schema of its own; the place is ``postgresql://...#name``.

    Args:
        place: The address.
    """

    def __init__(self, place: Address) -> None:
        self.address = parse_address(place) if isinstance(place, str) else place
        self.url, self.schema, self.place = self.address.url, self.address.schema, str(self.address)

    @classmethod
    def create(
        cls, place: Address, embedder: Embedder | None, dim: int, vectors: Precision
    ) -> "PostgresStore":
        """A new index without pictures."""
        store = cls(place)
        settings, weights = embedder.pack() if embedder is not None else (None, None)
        mark = embedder.fingerprint if embedder is not None else ""
        model = (VERSION, settings, weights, mark, dim, TYPE_OF[vectors])
        with connected(store.url, store.schema) as run, run.cursor.connection.transaction():
            run(LOCK, [store.schema])
            if run("SELECT 1 FROM pg_namespace WHERE nspname = %s", [store.schema]).fetchone():
                raise BadInput(
                    f"there is a schema '{store.schema}' in '{store.place}' already; 'lookalike "
                    "index add' adds to an index, '#NAME' after the address names another"
                )
            try:
                run("CREATE EXTENSION IF NOT EXISTS vector")
            except psycopg.Error as error:
                raise BadInput(
                    f"'{store.place}' has no pgvector, and it cannot be added: {first_line(error)}"
                ) from error
            run(TABLES, kind=SQL(TYPE_OF[vectors]), dim=SQL(f"{dim:d}"))
            run(MODEL, model)
        return store

    @cached_property
    def tables(self) -> Tables:
        """The tables, which must be of this version."""
        with connected(self.url, self.schema) as run:
            check_version(run, self.place)
            ((kind,),) = run("SELECT kind FROM {schema}.model").fetchall()
            ((version, simple_case),) = run(SERVER).fetchall()
        iterative = tuple(int(part) for part in version.split(".")[:2]) >= (0, 8)
        return Tables(Database.at(self.url), self.schema, kind, iterative, simple_case)

    def load_model(self) -> Embedder:
        """The model of the index."""
        ((settings, weights),) = self.tables.all("SELECT settings, weights FROM {schema}.model")
        return Embedder.unpack(settings, weights, self.place)

    def blueprint(self) -> Blueprint:
        """How its network is built."""
        ((settings,),) = self.tables.all("SELECT settings FROM {schema}.model")
        return parse_settings(settings, self.place)[0]

    def newest(self, former: PostgresContents | None = None) -> PostgresContents:
        """The newest state; ``former`` itself where nothing has changed."""
        row = self.tables.all(STATE)[0]
        if former is not None and row == former.row:
            return former
        fingerprint, dim, kind, generation, updated, count, ef_search, recall, sample, roots = row
        approximation = None
        if ef_search is not None:
            approximation = (
                f"HNSW graph of pgvector, ef_search {ef_search}; recall@{NEIGHBOURS} "
                f"{recall:.3f} against exact search, on {sample} pictures"
            )
        state = State(
            fingerprint=fingerprint,
            dim=dim,
            dtype="float32" if kind == "vector" else "float16",
            generation=generation,
            updated=updated,
            count=count,
            roots=tuple(map(Path, roots)),
            approximation=approximation,
        )
        return PostgresContents(self.tables, self.place, row, state, ef_search)

    def commit(
        self,
        former: PostgresContents,
        records: Sequence[Record],
        vectors: Vectors,
        dropped: Iterable[int],
    ) -> PostgresContents:
        """Drop and add in one transaction; a picture of the same root and path is replaced."""
        last = {record.key: row for row, record in enumerate(records)}
        rows = list(last.values())
        kept, gone = [records[row] for row in rows], list(dropped)
        self.tables.run(partial(load, self.tables.kind, kept, vectors[rows], gone))
        return self.newest(former)

    def add_root(self, root: Path) -> None:
        """Give a folder a number that no other has."""

        def store(run: Statements) -> None:
            run(LOCK, [run.schema])
            stored = [row[0] for row in run("SELECT path FROM {schema}.root ORDER BY number")]
            if str(root) not in stored:
                run("INSERT INTO {schema}.root VALUES (%s, %s)", [len(stored), str(root)])

        self.tables.run(store)

    def optimize(self, contents: PostgresContents, watcher: Watcher) -> PostgresContents:
        """Build the graph where there are many pictures; the server keeps it up to date."""
        return contents if contents.ef_search else self._make_graph(contents, watcher, again=False)

    def compact(self, contents: PostgresContents, watcher: Watcher) -> PostgresContents:
        """Give the space of removed pictures back to the server, and build the graph anew."""
        watcher.note("vacuuming the table")
        with connected(self.url, self.schema) as run:
            run("VACUUM (ANALYZE) {schema}.item")
        return self._make_graph(contents, watcher, again=True)

    def _make_graph(
        self, contents: PostgresContents, watcher: Watcher, again: bool
    ) -> PostgresContents:
        state, kind = contents.state, self.tables.kind
        if state.count < EXACT_BELOW or state.dim > graph.WIDEST[kind]:
            return contents
        if graph.build(self.url, self.schema, kind, again, watcher):
            graph.measure(contents)
            contents = self.newest(contents)
            watcher.note(f"search: {contents.state.approximation}")
        return contents


def load(
    kind: str, records: Sequence[Record], vectors: Vectors, dropped: list[int], run: Statements
) -> None:
    """Add pictures and drop others, one process at a time; doing it twice is doing it once."""
    run(LOCK, [run.schema])
    gone = run("DELETE FROM {schema}.item WHERE id = ANY(%s)", [dropped]).rowcount
    if records:
        keys = [[record.root for record in records], [record.path for record in records]]
        gone += run(REPLACED, keys).rowcount
        statement = f"COPY {{schema}}.item ({FIELDS}, embedding) FROM STDIN (FORMAT BINARY)"
        with run.cursor.copy(run.compose(statement)) as copy:
            copy.set_types([*TYPES, kind])
            for record, row in zip(records, vectors, strict=True):
                known = (record.path, record.label, Jsonb(record.metadata))
                numbers = (record.root, record.size, record.modified)
                vector = KINDS[kind](np.asarray(row, np.float32))
                copy.write_row((*known, *numbers, vector))
        names = {name for record in records for name in record.metadata}
        run.cursor.executemany(run.compose(COLUMN), [[name] for name in sorted(names)])
    run(CHANGED, [len(records) - gone])


def check_version(run: Statements, shown: str) -> None:
    """Refuse an index of another version, and a schema that is none."""
    there = "SELECT 1 FROM pg_tables WHERE schemaname = %s AND tablename = 'model'"
    if not run(there, [run.schema]).fetchone():
        raise BadInput(f"there is no index '{run.schema}' in '{shown}'")
    found = run("SELECT version FROM {schema}.model").fetchone()
    version = 0 if found is None else int(found[0])
    if version != VERSION:
        raise BadInput(
            f"the index '{shown}' has version {version}, and this lookalike reads version "
            f"{VERSION}; make it again"
        )
