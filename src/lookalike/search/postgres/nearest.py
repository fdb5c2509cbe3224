"""The nearest pictures of several queries in one statement.

Exact search orders by an expression that no index answers. The HNSW graph is searched with an
``ef_search``; with a filter pgvector goes on through the graph until enough pictures pass it
(``hnsw.iterative_scan``, pgvector 0.8). Where a filter leaves few pictures, or the graph finds too
few, the search is exact.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from psycopg.sql import SQL

from lookalike.inference.encoder import Vectors
from lookalike.search.filters import Filter
from lookalike.search.items import Hit
from lookalike.search.postgres.conditions import Where
from lookalike.search.postgres.database import Database, Statements
from lookalike.search.postgres.loading import KINDS

T = TypeVar("T")

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


@dataclass(frozen=True)
class Search:
    """How one index is searched.

    Args:
        database: Where it is.
        schema: Its schema.
        kind: The type of its vectors.
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

    def where(self, chosen: Filter | None) -> Where:
        """A filter for this server."""
        return Where(chosen, self.simple_case)

    def few(self, chosen: Filter) -> bool:
        """Whether a filter leaves so few pictures that they are better compared one by one."""
        where = self.where(chosen)
        values = {**where.values, "few": FEW}

        def count(run: Statements) -> int:
            found = run(SOME, values, where=where.condition).fetchone()
            return int(found[0]) if found else 0

        return self.run(count) < FEW

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
        where = self.where(chosen)
        adapt = KINDS[self.kind]
        values = {**where.values, "queries": [adapt(query) for query in queries], "k": k}

        def work(run: Statements) -> list[list[Hit]]:
            with run.cursor.connection.pipeline():
                for name, value in self._settings(k, ef_search).items():
                    run("SELECT set_config(%s, %s, true)", [name, value])
                condition = where.condition
                every, passing = (run.compose(text, where=condition) for text in (ALL, PASSING))
                rows = run(
                    NEAREST,
                    values,
                    filtered=passing if few else SQL(""),
                    source=SQL("passing") if few else every,
                    order=FAST if ef_search is not None else EXACT,
                    kind=SQL("vector" if self.kind == "vector" else "halfvec"),
                )
                hits: list[list[Hit]] = [[] for _ in queries]
                for number, id, path, label, metadata, similarity in rows.fetchall():
                    hit = Hit(id, path, label, metadata, min(1.0, similarity))
                    hits[number - 1].append(hit)
                return hits

        return self.run(work)

    def _settings(self, k: int, ef_search: int | None) -> dict[str, str]:
        """The settings of one search by the graph."""
        if ef_search is None:
            return {}
        settings = {
            "enable_seqscan": "off",
            "hnsw.ef_search": f"{min(MOST_PATHS, max(ef_search, k))}",
        }
        if self.iterative:
            settings |= {
                "hnsw.iterative_scan": "relaxed_order",
                "hnsw.max_scan_tuples": f"{MOST_VISITED}",
            }
        return settings


def ids_of(hits: Sequence[Sequence[Hit]]) -> list[list[int]]:
    """The ids of each query's hits."""
    return [[hit.id for hit in one] for one in hits]
