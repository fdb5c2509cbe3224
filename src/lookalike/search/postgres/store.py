"""The schema of an index in PostgreSQL: made, written to, and given its graph."""

from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path

import psycopg
from psycopg.sql import SQL

from lookalike.addresses import parse_address
from lookalike.errors import BadInput
from lookalike.inference.embedder import Embedder
from lookalike.inference.encoder import Vectors
from lookalike.progress import Watcher
from lookalike.search.contents import Address, State, Store
from lookalike.search.items import Precision, Record
from lookalike.search.postgres import graph
from lookalike.search.postgres.contents import PostgresContents
from lookalike.search.postgres.database import Database, connected, first_line
from lookalike.search.postgres.loading import LOCK, Load, NewRoot
from lookalike.search.postgres.nearest import Search
from lookalike.search.postgres.schema import TABLES, VERSION, check_version
from lookalike.search.recall import NEIGHBOURS

EXACT_BELOW = 10_000
KINDS = {"float32": "vector", "float16": "halfvec"}

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
        model = (VERSION, settings, weights, mark, dim, KINDS[vectors])
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
            run(TABLES, kind=SQL(KINDS[vectors]), dim=SQL(f"{dim:d}"))
            run(MODEL, model)
        return store

    @cached_property
    def tables(self) -> Search:
        """The tables, which must be of this version."""
        with connected(self.url, self.schema) as run:
            check_version(run, self.place)
            ((kind,),) = run("SELECT kind FROM {schema}.model").fetchall()
            ((version, simple_case),) = run(SERVER).fetchall()
        iterative = tuple(int(part) for part in version.split(".")[:2]) >= (0, 8)
        return Search(Database.at(self.url), self.schema, kind, iterative, simple_case)

    def load_model(self) -> Embedder:
        """The model of the index."""
        ((settings, weights),) = self.tables.all("SELECT settings, weights FROM {schema}.model")
        return Embedder.unpack(settings, weights, self.place)

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
        self.tables.run(Load(records, vectors, list(dropped), self.tables.kind))
        return self.newest(former)

    def add_root(self, root: Path) -> None:
        """Give a folder a number that no other has."""
        self.tables.run(NewRoot(root))

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
            graph.measure(self.tables, state.count)
            contents = self.newest(contents)
            watcher.note(f"search: {contents.state.approximation}")
        return contents
