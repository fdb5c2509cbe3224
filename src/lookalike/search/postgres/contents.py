"""What is stored in the tables of an index: read and searched.

Exact search orders by an expression that no index answers. The HNSW graph is searched with an
``ef_search``; with a filter pgvector goes on through the graph until enough pictures pass it
(``hnsw.iterative_scan``, pgvector 0.8). Where a filter leaves few pictures, or the graph finds too
few, the search is exact.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, LiteralString, TypeVar

import numpy as np
from pgvector import HalfVector, Vector
from psycopg.sql import SQL

from lookalike.errors import BadInput, LookalikeError
from lookalike.inference.encoder import Vectors
from lookalike.inference.pictures import is_text
from lookalike.search.contents import Contents, State
from lookalike.search.filters import Filter
from lookalike.search.items import Hit, Record
from lookalike.search.postgres.conditions import Where
from lookalike.search.postgres.database import Database, Statements
from lookalike.search.vectors import Ints

T = TypeVar("T")

FIELDS = "path, label, metadata, root, size, modified"
"""The columns of ``item`` in the order of a ``Record``."""
KINDS = {"vector": Vector, "halfvec": HalfVector}
REMEMBERED = 1_000
"""Filters of which it is known whether they leave few pictures."""
AT_ONCE = 256
"""Queries of one statement."""
MOST_PATHS = 1_000
"""The largest ``hnsw.ef_search``."""
MOST_VISITED = 40_000
"""Pictures that a filtered search of the graph looks at."""
FEW = 10_000
"""Up to this many pictures that pass a filter are compared exactly."""

EXACT = SQL("(embedding <#> query.vector) + 0, id")
FAST = SQL("embedding <#> query.vector")
ALL = "{schema}.item WHERE {where}"
PASSING = "WITH passing AS MATERIALIZED (SELECT * FROM {schema}.item WHERE {where})"
"""The filter is evaluated once for all queries."""
NEAREST = """
{filtered} SELECT query.number, near.* FROM
    unnest(%(queries)s::{kind}[]) WITH ORDINALITY AS query (vector, number)
    CROSS JOIN LATERAL (
        SELECT id, path, label, metadata, -(embedding <#> query.vector) AS similarity
        FROM {source} ORDER BY {order} LIMIT %(k)s
    ) near ORDER BY query.number, near.similarity DESC, near.id
"""
SOME = "SELECT count(*) FROM (SELECT 1 FROM {schema}.item WHERE {where} LIMIT %(few)s) passing"
COUNT = "SELECT count(*) FROM {schema}.item WHERE {where}"
IDS = "SELECT id FROM {schema}.item WHERE {where} ORDER BY id"
IDS_OF = """
SELECT coalesce(item.id, -1) FROM
    unnest(%s::integer[], %s::text[]) WITH ORDINALITY AS given (root, path, number)
    LEFT JOIN {schema}.item USING (root, path) ORDER BY given.number
"""
LABELS = "SELECT label, count(*) FROM {schema}.item WHERE label IS NOT NULL GROUP BY label"


@dataclass(frozen=True)
class Tables:
    """The tables of one index.

    Args:
        database: Where they are.
        schema: Their schema.
        kind: The type of the vectors.
        iterative: The server's pgvector goes on through the graph where a filter passes few.
        simple_case: See ``Where``.
    """

    database: Database
    schema: str
    kind: str
    iterative: bool
    simple_case: bool

    def run(self, work: Callable[[Statements], T]) -> T:
        """Do work on the tables in one transaction."""
        return self.database.run(self.schema, work)

    def all(self, statement: Any, values: Any = None, **parts: Any) -> list[tuple[Any, ...]]:
        """The rows of a statement."""
        return self.run(lambda run: run(statement, values, **parts).fetchall())

    def where(
        self, statement: LiteralString, chosen: Filter | None, **values: Any
    ) -> list[tuple[Any, ...]]:
        """The rows of a statement about the pictures that a filter leaves."""
        where = Where(chosen, self.simple_case)
        return self.all(statement, {**where.values, **values}, where=where.condition)


class PostgresContents(Contents):
    """The pictures of an index in PostgreSQL.

    Every call answers from one state of the tables. What was fetched once (``ids``) belongs to one
    state too: where another process has removed a picture meanwhile, asking for it is refused, and
    ``Index.latest`` has the new state.

    Args:
        tables: Where they are.
        place: What a message calls the index.
        row: The state as the server has it.
        state: The same as facts.
        ef_search: Of the graph; None: there is none.
    """

    def __init__(
        self,
        tables: Tables,
        place: str,
        row: tuple[Any, ...],
        state: State,
        ef_search: int | None,
    ) -> None:
        self.tables, self.place = tables, place
        self.row, self.state, self.ef_search = row, state, ef_search
        self._leaves_few = lru_cache(REMEMBERED)(self._few)

    def _few(self, where: Filter) -> bool:
        """Whether a filter is better searched exactly; asked once for each state and filter."""
        return int(self.tables.where(SOME, where, few=FEW)[0][0]) < FEW

    def search(
        self, queries: Vectors, k: int, where: Filter | None, exact: bool
    ) -> list[list[Hit]]:
        """The nearest pictures and what is stored about them."""
        ef_search = None if exact else self.ef_search
        matters = ef_search is not None or len(queries) > 1
        few = matters and where is not None and self._leaves_few(where)
        return self.nearest(queries, k, where, None if few else ef_search, few)

    def nearest(
        self,
        queries: Vectors,
        k: int,
        chosen: Filter | None,
        ef_search: int | None,
        few: bool = False,
    ) -> list[list[Hit]]:
        """The ``k`` nearest of each query.

        Args:
            queries: Unit vectors.
            k: How many to find.
            chosen: Which pictures to search.
            ef_search: Of a search by the graph; None: exact.
            few: The filter leaves few pictures.
        """
        found: list[list[Hit]] = []
        for start in range(0, len(queries), AT_ONCE):
            found += self._some(queries[start : start + AT_ONCE], k, chosen, ef_search, few)
        short = [number for number, hits in enumerate(found) if len(hits) < k]
        if ef_search is None or not short:
            return found
        again = self.nearest(queries[short], k, chosen, None)
        for number, hits in zip(short, again, strict=True):
            found[number] = hits
        return found

    def _some(
        self, queries: Vectors, k: int, chosen: Filter | None, ef_search: int | None, few: bool
    ) -> list[list[Hit]]:
        tables, where = self.tables, Where(chosen, self.tables.simple_case)
        adapt = KINDS[tables.kind]
        values = {**where.values, "queries": [adapt(query) for query in queries], "k": k}

        def work(run: Statements) -> list[list[Hit]]:
            with run.cursor.connection.pipeline():
                for name, value in self._settings(k, ef_search).items():
                    run("SELECT set_config(%s, %s, true)", [name, value])
                every, passing = (
                    run.compose(text, where=where.condition) for text in (ALL, PASSING)
                )
                rows = run(
                    NEAREST,
                    values,
                    filtered=passing if few else SQL(""),
                    source=SQL("passing") if few else every,
                    order=FAST if ef_search is not None else EXACT,
                    kind=SQL("vector" if tables.kind == "vector" else "halfvec"),
                )
                hits: list[list[Hit]] = [[] for _ in queries]
                for number, id, path, label, metadata, similarity in rows.fetchall():
                    hit = Hit(id, path, label, metadata, min(1.0, similarity))
                    hits[number - 1].append(hit)
                return hits

        return tables.run(work)

    def _settings(self, k: int, ef_search: int | None) -> dict[str, str]:
        """The settings of one search by the graph."""
        if ef_search is None:
            return {}
        settings = {
            "enable_seqscan": "off",
            "hnsw.ef_search": f"{min(MOST_PATHS, max(ef_search, k))}",
        }
        if self.tables.iterative:
            settings |= {
                "hnsw.iterative_scan": "relaxed_order",
                "hnsw.max_scan_tuples": f"{MOST_VISITED}",
            }
        return settings

    def root_at(self, number: int) -> Path | None:
        """The folder of a number, which another process may have added since."""
        found = super().root_at(number)
        if found is None and number >= 0:
            rows = self.tables.all("SELECT path FROM {schema}.root WHERE number = %s", [number])
            found = Path(rows[0][0]) if rows else None
        return found

    @cached_property
    def ids(self) -> Ints:
        """The id of each picture; like the following, fetched on first use."""
        found = np.array(self.tables.where(IDS, None), np.int64).reshape(-1)
        if len(found) != self.state.count:
            raise LookalikeError(
                f"another process has changed the index '{self.place}'; open it again"
            )
        return found

    @cached_property
    def columns(self) -> list[str]:
        """The names of the metadata columns, sorted."""
        return sorted(
            row[0] for row in self.tables.all("SELECT name FROM {schema}.metadata_column")
        )

    @cached_property
    def label_counts(self) -> dict[str, int]:
        """How many pictures each label has."""
        return dict(sorted(self.tables.all(LABELS)))

    def count(self, where: Filter) -> int:
        """How many pictures a filter leaves."""
        return int(self.tables.where(COUNT, where)[0][0])

    def ids_where(self, where: Filter) -> Ints:
        """The ids of the pictures that a filter leaves, ascending."""
        return np.array(self.tables.where(IDS, where), np.int64).reshape(-1)

    def records_of(self, ids: Sequence[int]) -> list[Record]:
        """What is stored about some pictures."""
        return [Record(*row) for row in self._chosen(FIELDS, ids)]

    def vectors_of(self, ids: Sequence[int]) -> Vectors:
        """The unit vectors of some pictures, float32 [n, dim]."""
        rows = [row[0].to_numpy() for row in self._chosen("embedding", ids)]
        return np.array(rows, np.float32).reshape(-1, self.state.dim)

    def ids_of(self, records: Sequence[Record]) -> Ints:
        """The id of the picture with the same folder and path; -1: there is none."""
        keys = [[record.root for record in records], [record.path for record in records]]
        return np.array([row[0] for row in self.tables.all(IDS_OF, keys)], np.int64)

    def has_label(self, label: str) -> bool:
        """Whether a picture has a label."""
        found = "SELECT 1 FROM {schema}.item WHERE label = %s LIMIT 1"
        return is_text(label) and bool(self.tables.all(found, [label]))

    def _chosen(self, columns: str, ids: Sequence[int]) -> list[tuple[Any, ...]]:
        """The columns of some pictures; an unknown id is refused."""
        wanted = [int(id) for id in ids]
        statement = f"SELECT id, {columns} FROM {{schema}}.item WHERE id = ANY(%s::bigint[])"
        possible = [id for id in wanted if abs(id) < 2**63]
        found = {row[0]: row[1:] for row in self.tables.all(statement, [possible])}
        for id in wanted:
            if id not in found:
                raise BadInput(f"there is no picture {id} in the index '{self.place}'")
        return [found[id] for id in wanted]
