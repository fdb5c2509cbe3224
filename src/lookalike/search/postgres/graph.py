"""pgvector's HNSW graph: built while others read and write, and measured against exact search."""

import numpy as np
from psycopg.sql import SQL, Identifier

from lookalike.progress import Watcher
from lookalike.search.postgres.contents import PostgresContents
from lookalike.search.postgres.database import connected
from lookalike.search.vectors import NEIGHBOURS, least_setting

GRAPH = "item_graph"
"""The name of the HNSW index."""
WIDEST = {"vector": 2_000, "halfvec": 4_000}
"""The most numbers of a vector that pgvector builds a graph of."""
EF_SEARCHES = (40, 80, 160, 320, 640, 1000)
SAMPLE = 100

TRY_LOCK = "SELECT pg_try_advisory_lock(hashtext(%s))"
INDEXES = """
SELECT c.relname, i.indisvalid FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
    JOIN pg_am a ON a.oid = c.relam JOIN pg_class t ON t.oid = i.indrelid
    JOIN pg_namespace n ON n.oid = t.relnamespace
    WHERE n.nspname = %s AND t.relname = 'item' AND a.amname = 'hnsw'
"""
DRAWN = """
SELECT id, embedding FROM {schema}.item TABLESAMPLE SYSTEM (%s)
    ORDER BY random() LIMIT %s
"""
MEASURED = "UPDATE {schema}.model SET ef_search = %s, recall = %s, sample = %s"


def build(url: str, schema: str, kind: str, again: bool, watcher: Watcher) -> bool:
    """Build the graph, unless another process is at it.

    What a killed process left half-built is dropped first. Nothing here is in a transaction:
    pictures can be added, removed and found meanwhile.

    Args:
        url: The database.
        schema: The schema of the index.
        kind: The type of its vectors.
        again: Build a whole graph anew, too.
        watcher: Is told.

    Returns:
        Whether there is a graph now.
    """
    with connected(url, schema) as run:
        if run(TRY_LOCK, [f"graph of {schema}"]).fetchone() != (True,):
            watcher.note("another process is building the HNSW graph")
            return False
        there = dict(run(INDEXES, [schema]).fetchall())
        for name, valid in there.items():
            if not valid or name != GRAPH:
                watcher.note("dropping an HNSW graph that was not finished")
                run("DROP INDEX CONCURRENTLY {schema}.{name}", name=Identifier(name))
        graph = {"graph": Identifier(GRAPH)}
        if not there.get(GRAPH):
            watcher.note("building the HNSW graph")
            operators = SQL("vector_ip_ops" if kind == "vector" else "halfvec_ip_ops")
            run(
                "CREATE INDEX CONCURRENTLY {graph} ON {schema}.item "
                "USING hnsw (embedding {operators})",
                operators=operators,
                **graph,
            )
        elif again:
            watcher.note("building the HNSW graph again")
            run("REINDEX INDEX CONCURRENTLY {schema}.{graph}", **graph)
        return True


def measure(contents: PostgresContents) -> None:
    """Store the least ef_search that finds enough of the true neighbours, and its recall."""
    share = min(100.0, 100.0 * 50 * SAMPLE / max(1, contents.state.count))
    drawn = contents.tables.all(DRAWN, [share, SAMPLE])
    if not drawn:
        return
    ids = [row[0] for row in drawn]
    queries = np.array([row[1].to_numpy() for row in drawn], np.float32)

    def near(ef_search: int | None) -> list[list[int]]:
        found = contents.nearest(queries, NEIGHBOURS + 1, None, ef_search)
        return [[hit.id for hit in hits] for hits in found]

    ef_search, recall = least_setting(EF_SEARCHES, ids, near(None), near)
    values = [ef_search, recall, len(ids)]
    contents.tables.run(lambda run: run(MEASURED, values))
