"""The index in PostgreSQL as one object."""

from collections.abc import Iterable, Sequence
from copy import copy
from pathlib import Path
from typing import Any, Self

import numpy as np
import psycopg
from psycopg.sql import SQL

from lookalike.addresses import parse_address
from lookalike.errors import BadInput
from lookalike.inference.embedder import Embedder
from lookalike.inference.encoder import Vectors
from lookalike.progress import Watcher
from lookalike.search.filters import Filter
from lookalike.search.index import Address, Found, vector_size
from lookalike.search.items import Hit, Precision, Record
from lookalike.search.postgres import graph
from lookalike.search.postgres.contents import CACHED, Contents
from lookalike.search.postgres.database import Database, connected, first_line
from lookalike.search.postgres.loading import LOCK, Load, NewRoot
from lookalike.search.postgres.nearest import Search
from lookalike.search.postgres.schema import TABLES, VERSION, check_version
from lookalike.search.recall import NEIGHBOURS

EXACT_BELOW = 10_000
REMEMBERED = 1_000
"""Filters of which it is known whether they leave few pictures."""
KINDS = {"float32": "vector", "float16": "halfvec"}

MODEL = """
INSERT INTO {schema}.model (version, settings, weights, fingerprint, dim, kind)
VALUES (%s, %s, %s, %s, %s, %s)
"""
SERVER = """
SELECT (SELECT extversion FROM pg_extension WHERE extname = 'vector'),
    EXISTS (SELECT 1 FROM pg_collation WHERE collname = 'pg_c_utf8')
"""
ROOTS = "SELECT path FROM {schema}.root ORDER BY number"
STATE = """
SELECT generation, updated, count, ef_search, recall, sample,
    ARRAY(SELECT path FROM {schema}.root ORDER BY number) FROM {schema}.model
"""


class PostgresIndex(Contents):
    """See :class:`~lookalike.search.index.Index`; the place is ``postgresql://...#name``."""

    def __init__(self, place: Address) -> None:
        self.address = parse_address(place) if isinstance(place, str) else place
        self.url, self.schema, self.place = self.address.url, self.address.schema, str(self.address)

    @classmethod
    def create_empty(
        cls,
        place: Address,
        embedder: Embedder | None,
        dim: int | None = None,
        vectors: Precision = "float32",
    ) -> Self:
        """A new index without pictures."""
        index = cls(place)
        dim = vector_size(embedder, dim)
        settings, weights = embedder.pack() if embedder is not None else (None, None)
        mark = embedder.fingerprint if embedder is not None else ""
        model = (VERSION, settings, weights, mark, dim, KINDS[vectors])
        with connected(index.url, index.schema) as run, run.cursor.connection.transaction():
            run(LOCK, [index.schema])
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
            run(TABLES, kind=SQL(KINDS[vectors]), dim=SQL(f"{dim:d}"))
            run(MODEL, model)
        return cls.open_at(place)

    @classmethod
    def open_at(cls, place: Address) -> Self:
        """An existing index."""
        index = cls(place)
        with connected(index.url, index.schema) as run:
            check_version(run, index.place)
            statement = "SELECT fingerprint, dim, kind FROM {schema}.model"
            ((index.fingerprint, index.dim, kind),) = run(statement).fetchall()
            ((version, simple_case),) = run(SERVER).fetchall()
        index.dtype = "float32" if kind == "vector" else "float16"
        index.database = Database.at(index.url)
        iterative = tuple(int(part) for part in version.split(".")[:2]) >= (0, 8)
        index._search = Search(index.database, index.schema, kind, iterative, simple_case)
        index._refresh()
        return index

    def find(self, queries: Vectors, k: int, where: Filter | None, exact: bool) -> Found:
        """Ids and similarities of the nearest pictures."""
        hits = self.nearest(queries, k, where, exact)
        return [[(hit.id, hit.similarity) for hit in one] for one in hits]

    def nearest(
        self, queries: Vectors, k: int, where: Filter | None, exact: bool
    ) -> list[list[Hit]]:
        """The nearest pictures and what is stored about them, from one state of the tables."""
        ef_search = None if exact else self._ef_search
        matters = ef_search is not None or len(queries) > 1
        few = matters and where is not None and self._leaves_few(where)
        ef_search = None if few else ef_search
        return self._search.nearest(np.asarray(queries, np.float32), k, where, ef_search, few)

    def _leaves_few(self, where: Filter) -> bool:
        """Whether a filter is better searched exactly; asked once for each state and filter."""
        known = self._few.get(where.text)
        if known is None:
            if len(self._few) >= REMEMBERED:
                self._few.clear()
            known = self._few[where.text] = self._search.few(where)
        return known

    def _commit(self, records: Sequence[Record], vectors: Vectors, dropped: Iterable[int]) -> None:
        """Drop and add in one transaction; a picture of the same root and path is replaced."""
        load = Load(records, vectors, list(dropped), self._search.kind)
        self.database.run(self.schema, load)
        self._refresh()

    def root_of(self, record: Record) -> Path | None:
        """The folder of a picture, which another process may have added since."""
        if record.root >= len(self.roots):
            self.roots = tuple(Path(row[0]) for row in self._all(ROOTS))
        return super().root_of(record)

    def root_number(self, root: Path) -> int:
        """The number of a folder among ``roots``; a new one gets a number that no other has."""
        if root not in self.roots:
            self.roots = self.database.run(self.schema, NewRoot(root))
        return self.roots.index(root)

    def optimize(self, watcher: Watcher) -> None:
        """Build the graph where there are many pictures; the server keeps it up to date."""
        if self._ef_search is None:
            self._make_graph(watcher, again=False)

    def compact(self, watcher: Watcher) -> None:
        """Give the space of removed pictures back to the server, and build the graph anew."""
        watcher.note("vacuuming the table")
        with connected(self.url, self.schema) as run:
            run("VACUUM (ANALYZE) {schema}.item")
        self._make_graph(watcher, again=True)

    def _make_graph(self, watcher: Watcher, again: bool) -> None:
        kind = self._search.kind
        if self._count < EXACT_BELOW or self.dim > graph.WIDEST[kind]:
            return
        if graph.build(self.url, self.schema, kind, again, watcher):
            graph.measure(self._search, self._count)
            self._refresh()
            watcher.note(f"search: {self.approximation}")

    def latest(self) -> "PostgresIndex":
        """This index as it is on the server now: itself where nothing has changed."""
        state = self._all(STATE)[0]
        if state == self._state:
            return self
        now = copy(self)
        now._take(state)
        return now

    def _refresh(self) -> None:
        """Discard what was fetched; read the state of the index."""
        self._take(self._all(STATE)[0])

    def _take(self, state: tuple[Any, ...]) -> None:
        for name in CACHED:
            self.__dict__.pop(name, None)
        self._state = state
        self._few: dict[str, bool] = {}
        self.generation, self.updated, self._count, self._ef_search, recall, sample, roots = state
        self.roots = tuple(map(Path, roots))
        self.approximation = None
        if self._ef_search is not None:
            self.approximation = (
                f"HNSW graph of pgvector, ef_search {self._ef_search}; recall@{NEIGHBOURS} "
                f"{recall:.3f} against exact search, on {sample} pictures"
            )
