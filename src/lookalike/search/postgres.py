"""An index in PostgreSQL with pgvector, for collections that are too large for one machine.

Every index is a schema of its own with the tables ``model`` (one row: the network, its weights and
how the index searches), ``root`` and ``item``. What changes together changes in one transaction.
"""

import json
import tempfile
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self
from urllib.parse import unquote, urlsplit

import numpy as np
import psycopg
from numpy.typing import NDArray
from pgvector.psycopg import register_vector
from psycopg.sql import SQL, Identifier
from psycopg.types.json import Jsonb

from lookalike.errors import BadInput, LookalikeError
from lookalike.inference.embedder import Embedder
from lookalike.inference.encoder import Vectors
from lookalike.progress import Watcher
from lookalike.search.approximate import NEIGHBOURS, least_effort
from lookalike.search.index import Found, Index
from lookalike.search.items import Record

VERSION = 1
DEFAULT_NAME = "lookalike"
EXACT_BELOW = 10_000
WIDEST_GRAPH = 2_000
EFFORTS = (40, 80, 160, 320, 640, 1000)
SAMPLE = 100

TABLES = """
CREATE SCHEMA {schema};
CREATE TABLE {schema}.model (
    version integer NOT NULL, settings text NOT NULL, weights bytea NOT NULL,
    dim integer NOT NULL, effort integer, recall double precision, sample integer
);
CREATE TABLE {schema}.root (number integer PRIMARY KEY, path text UNIQUE NOT NULL);
CREATE TABLE {schema}.item (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    root integer NOT NULL REFERENCES {schema}.root, path text NOT NULL, label text,
    metadata jsonb NOT NULL, size bigint NOT NULL, modified bigint NOT NULL,
    embedding vector({dim}) NOT NULL, UNIQUE (root, path)
);
CREATE INDEX ON {schema}.item (label);
"""


class PostgresIndex(Index):
    """See :class:`~lookalike.search.index.Index`; the place is ``postgresql://...#name``."""

    def __init__(self, place: str) -> None:
        self.url, _, name = place.partition("#")
        self.schema = unquote(name) or DEFAULT_NAME
        self.place = without_password(place)
        self._lock = threading.RLock()
        self._connection: psycopg.Connection[Any] | None = None

    @classmethod
    def create_empty(cls, place: str, embedder: Embedder) -> Self:
        """A new index without pictures."""
        index = cls(place)
        with tempfile.TemporaryDirectory() as folder:
            embedder.save(folder)
            weights = (Path(folder) / "weights.safetensors").read_bytes()
        with index._transaction() as run:
            if run("SELECT 1 FROM pg_namespace WHERE nspname = %s", [index.schema]).fetchone():
                raise BadInput(
                    f"there is a schema '{index.schema}' in '{index.place}' already; 'lookalike "
                    "index add' adds to an index, '#NAME' after the address names another"
                )
            try:
                run("CREATE EXTENSION IF NOT EXISTS vector")
            except psycopg.Error as error:
                raise BadInput(
                    f"'{index.place}' has no pgvector, and it cannot be added: {first_line(error)}"
                ) from error
            run(TABLES, dim=embedder.dim)
            settings = json.dumps(embedder.record())
            run(
                "INSERT INTO {schema}.model (version, settings, weights, dim) VALUES "
                "(%s, %s, %s, %s)",
                [VERSION, settings, weights, embedder.dim],
            )
        return cls.open_at(place)

    @classmethod
    def open_at(cls, place: str) -> Self:
        """An existing index."""
        index = cls(place)
        with index._transaction() as run:
            statement = "SELECT 1 FROM pg_tables WHERE schemaname = %s AND tablename = 'model'"
            if not run(statement, [index.schema]).fetchone():
                raise BadInput(f"there is no index '{index.schema}' in '{index.place}'")
            version = run("SELECT version FROM {schema}.model").fetchone()
            if version is None or version[0] != VERSION:
                raise BadInput(
                    f"the index '{index.place}' has version {version and version[0]}, and this "
                    f"lookalike reads version {VERSION}; make it again"
                )
            settings, weights = run("SELECT settings, weights FROM {schema}.model").fetchone()
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "weights.safetensors"
            path.write_bytes(weights)
            index.embedder = Embedder.restore(settings, path, index.place)
        index.fingerprint, index.dim = index.embedder.fingerprint, index.embedder.dim
        index._refresh()
        return index

    @cached_property
    def ids(self) -> NDArray[np.int64]:  # type: ignore[override]
        """The id of each picture; like the following, fetched on first use."""
        return np.array([row[0] for row in self._rows], np.int64)

    @cached_property
    def vectors(self) -> Vectors:  # type: ignore[override]
        """All vectors."""
        rows = self._all("SELECT embedding::real[] FROM {schema}.item ORDER BY id")
        return np.array([row[0] for row in rows], np.float32).reshape(-1, self.dim)

    @cached_property
    def records(self) -> Sequence[Record]:  # type: ignore[override]
        """What is stored about each picture."""
        return [Record(*row[1:]) for row in self._rows]

    @cached_property
    def label_names(self) -> list[str]:  # type: ignore[override]
        """Every label, sorted."""
        statement = "SELECT DISTINCT label FROM {schema}.item WHERE label IS NOT NULL"
        return sorted(row[0] for row in self._all(statement))

    @cached_property
    def label_codes(self) -> NDArray[np.int32]:  # type: ignore[override]
        """The position of each picture's label in ``label_names``."""
        number = {name: code for code, name in enumerate(self.label_names)}
        return np.array([number.get(row[2], -1) for row in self._rows], np.int32)

    @cached_property
    def _rows(self) -> list[tuple[Any, ...]]:
        return self._all(f"SELECT id, {FIELDS} FROM {{schema}}.item ORDER BY id")

    def __len__(self) -> int:
        return int(self._all("SELECT count(*) FROM {schema}.item")[0][0])

    def records_of(self, ids: Sequence[int]) -> list[Record]:
        """What is stored about some pictures."""
        return [Record(*row) for row in self._chosen(FIELDS, ids)]

    def vector_of(self, id: int) -> Vectors:
        """The unit vector of a picture."""
        ((vector,),) = self._chosen("embedding::real[]", [id])
        return np.asarray(vector, np.float32)

    def _chosen(self, columns: str, ids: Sequence[int]) -> list[tuple[Any, ...]]:
        """The columns of some pictures; an unknown id is refused."""
        statement = f"SELECT id, {columns} FROM {{schema}}.item WHERE id = ANY(%s)"
        found = {row[0]: row[1:] for row in self._all(statement, [list(ids)])}
        for id in ids:
            if id not in found:
                raise BadInput(f"there is no picture {id} in the index '{self.place}'")
        return [found[id] for id in ids]

    def find(self, queries: Vectors, k: int, label: str | None, exact: bool) -> Found:
        """Ids and similarities of the nearest pictures; within a label always exact."""
        effort = None if exact or label is not None else self._effort
        return [self._nearest(query, k, label, effort) for query in queries]

    def commit(
        self, records: Sequence[Record], vectors: Vectors, dropped: Iterable[int] = ()
    ) -> None:
        """Drop and insert in one transaction; a path added meanwhile is overwritten."""
        with self._transaction() as run:
            run("SELECT pg_advisory_xact_lock(hashtext(%s))", [self.schema])
            kept = [row[0] for row in run("SELECT path FROM {schema}.root ORDER BY number")]
            if kept != [str(root) for root in self.roots[: len(kept)]]:
                raise LookalikeError(f"another process has changed the index '{self.place}'")
            for number, root in enumerate(self.roots[len(kept) :], len(kept)):
                run("INSERT INTO {schema}.root VALUES (%s, %s)", [number, str(root)])
            run("DELETE FROM {schema}.item WHERE id = ANY(%s)", [list(dropped)])
            run("CREATE TEMP TABLE fresh (LIKE {schema}.item) ON COMMIT DROP")
            run("ALTER TABLE fresh ALTER id DROP NOT NULL")
            with run.cursor.copy(f"COPY fresh ({FIELDS}, embedding) FROM STDIN") as copy:
                for r, vector in zip(records, vectors, strict=True):
                    known = (r.path, r.label, Jsonb(r.metadata), r.root, r.size, r.modified)
                    copy.write_row((*known, np.asarray(vector, np.float32)))
            run(INSERT)
        self._refresh()

    def optimize(self, watcher: Watcher) -> None:
        """Build the graph where there are many pictures; the server keeps it up to date."""
        if self._effort is not None or len(self) < EXACT_BELOW or self.dim > WIDEST_GRAPH:
            return
        watcher.note(f"building the HNSW graph of {len(self):,} pictures")
        with self._transaction() as run:
            run("CREATE INDEX ON {schema}.item USING hnsw (embedding vector_ip_ops)")
        drawn = self._all(
            "SELECT id, embedding::real[] FROM {schema}.item ORDER BY random() LIMIT %s", [SAMPLE]
        )

        def near(effort: int | None) -> list[list[int]]:
            queries = (np.asarray(row[1], np.float32) for row in drawn)
            found = (self._nearest(query, NEIGHBOURS + 1, None, effort) for query in queries)
            return [[id for id, _ in one] for one in found]

        effort, recall = least_effort(EFFORTS, [row[0] for row in drawn], near(None), near)
        with self._transaction() as run:
            statement = "UPDATE {schema}.model SET effort = %s, recall = %s, sample = %s"
            run(statement, [effort, recall, len(drawn)])
        self._refresh()
        watcher.note(f"search: {self.approximation}")

    def _nearest(
        self, query: Vectors, k: int, label: str | None, effort: int | None
    ) -> list[tuple[int, float]]:
        """By the graph with some effort, or (None) by comparing with every picture."""
        where = "" if label is None else "WHERE label = %(label)s"
        statement = f"SELECT id, -(embedding <#> %(query)s) FROM {{schema}}.item {where} ORDER BY "
        with self._transaction() as run:
            if effort is None:
                run("SET LOCAL enable_indexscan = off")
            else:
                run("SET LOCAL enable_seqscan = off")
                run(f"SET LOCAL hnsw.ef_search = {min(1000, max(effort, k)):d}")
            values = {"query": query, "label": label, "k": k}
            found = run(statement + "embedding <#> %(query)s LIMIT %(k)s", values)
            return [(int(id), float(similarity)) for id, similarity in found]

    def _refresh(self) -> None:
        """Discard what was fetched; read how the index searches and its folders."""
        for name in ("ids", "vectors", "records", "label_names", "label_codes", "_rows"):
            self.__dict__.pop(name, None)
        roots = self._all("SELECT path FROM {schema}.root ORDER BY number")
        self.roots = tuple(Path(row[0]) for row in roots)
        statement = "SELECT effort, recall, sample FROM {schema}.model"
        self._effort, recall, sample = self._all(statement)[0]
        self.approximation = None
        if self._effort is not None:
            self.approximation = (
                f"HNSW graph of pgvector, {self._effort} paths a query; recall@{NEIGHBOURS} "
                f"{recall:.3f} against exact search, on {sample} pictures"
            )

    def _all(self, statement: str, values: Any = None) -> list[tuple[Any, ...]]:
        with self._transaction() as run:
            found: list[tuple[Any, ...]] = run(statement, values).fetchall()
            return found

    @contextmanager
    def _transaction(self) -> Iterator["Statements"]:
        """All or nothing; one thread at a time."""
        with self._lock:
            try:
                if self._connection is None or self._connection.closed:
                    self._connection = connect(self.url)
                with self._connection.transaction(), self._connection.cursor() as cursor:
                    yield Statements(cursor, self.schema)
            except psycopg.Error as error:
                silent = isinstance(error, psycopg.OperationalError)
                what = f"at '{self.place}' does not answer" if silent else "reports an error"
                raise LookalikeError(f"PostgreSQL {what}: {first_line(error)}") from error


FIELDS = "path, label, metadata, root, size, modified"
INSERT = f"""
INSERT INTO {{schema}}.item ({FIELDS}, embedding) SELECT {FIELDS}, embedding FROM fresh
ON CONFLICT (root, path) DO UPDATE SET label = excluded.label, metadata = excluded.metadata,
    size = excluded.size, modified = excluded.modified, embedding = excluded.embedding
"""


@dataclass(frozen=True)
class Statements:
    """Runs SQL statements in which ``{schema}`` is the schema of one index."""

    cursor: psycopg.Cursor[Any]
    schema: str

    def __call__(self, text: str, values: Any = None, dim: int = 0) -> Any:
        """One statement with its values."""
        composed = SQL(text).format(schema=Identifier(self.schema), dim=SQL(str(dim)))
        return self.cursor.execute(composed, values)


def connect(url: str) -> psycopg.Connection[Any]:
    """A connection, with the type ``vector`` where the server has it."""
    try:
        connection = psycopg.connect(url, connect_timeout=10, autocommit=True)
    except psycopg.Error as error:
        raise BadInput(f"cannot open '{without_password(url)}': {first_line(error)}") from error
    if connection.execute("SELECT to_regtype('vector')").fetchone() != (None,):
        register_vector(connection)
    return connection


def without_password(place: str) -> str:
    """The address without its password, to be shown."""
    parts = urlsplit(place)
    if parts.password is None:
        return place
    host = parts.netloc.rpartition("@")[2]
    return parts._replace(netloc=f"{parts.username}@{host}").geturl()


def first_line(error: Exception) -> str:
    """The first line of an error message."""
    return str(error).partition("\n")[0].strip()
