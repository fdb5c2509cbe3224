"""The HNSW graph: built beside readers and writers, with filters, and after a kill."""

import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import psycopg
import pytest

from lookalike.errors import LookalikeError
from lookalike.progress import Watcher
from lookalike.search import Index
from lookalike.search.filters import Filter
from lookalike.search.postgres import contents, graph
from lookalike.search.postgres import store as postgres_store

DIM = 16
COUNT = 2_000


class Notes(Watcher):
    def __init__(self):
        self.said = []

    def note(self, text):
        self.said.append(text)


@pytest.fixture
def index(place, tmp_path, unit_rows, records, monkeypatch):
    monkeypatch.setattr(postgres_store, "EXACT_BELOW", 1_000)
    monkeypatch.setattr(contents, "FEW", 300)
    made = Index.create(place, None, dim=DIM)
    made.root_number(tmp_path)
    made.commit(records(COUNT), unit_rows(COUNT, DIM))
    return made


def truth(index, query, mask, k):
    rows = np.flatnonzero(mask)
    near = rows[np.argsort(-(index.vectors[rows] @ query), kind="stable")[:k]]
    return index.ids[near].tolist()


def graphs(index):
    return dict(index.contents.tables.all(graph.INDEXES, [index.store.schema]))


def test_filtered_search_by_the_graph(index, unit_rows, monkeypatch):
    index.optimize(Watcher())
    settings = []
    real = contents.PostgresContents._some
    monkeypatch.setattr(
        contents.PostgresContents, "_some", lambda *given: settings.append(given[4]) or real(*given)
    )
    queries = unit_rows(20, DIM, seed=5)
    price = np.arange(COUNT)
    for text, mask, fast in (
        ("odd = 'yes'", price % 2 == 1, True),
        ("price < 100", price < 100, False),
        ("label = '2' and price >= 500", (price % 3 == 2) & (price >= 500), True),
        ("price < 0", price < 0, False),
    ):
        settings.clear()
        found = index.search(queries, 10, where=text)
        assert (settings[0] is not None) == fast
        right = [truth(index, query, mask, 10) for query in queries]
        shares = [
            len({hit.id for hit in hits} & set(ids)) / max(1, len(ids))
            for hits, ids in zip(found, right, strict=True)
        ]
        assert [len(hits) for hits in found] == [len(ids) for ids in right]
        assert np.mean(shares) > 0.9 if fast or len(right[0]) else shares == [0] * 20
        exact = index.search(queries, 10, where=text, exact=True)
        assert [[hit.id for hit in hits] for hits in exact] == right


def test_more_than_the_graph_gives_is_found_exactly(index):
    index.optimize(Watcher())
    assert len(index.search(index.vectors[0], COUNT + 5)[0]) == COUNT
    found = index.search(index.vectors[0], 900, where="odd = 'yes'")[0]
    assert len({hit.id for hit in found}) == 900


def test_what_a_kill_left_is_dropped_and_built_again(index, postgres):
    """A writer holds up the build when it is half-way, and there it is killed."""
    builder = "SELECT pid FROM pg_stat_activity WHERE query LIKE 'CREATE INDEX CONCURRENTLY%'"
    with (
        psycopg.connect(postgres) as writer,
        psycopg.connect(postgres, autocommit=True) as killer,
        ThreadPoolExecutor(1) as pool,
    ):
        writer.execute(f"LOCK TABLE {index.store.schema}.item IN ROW EXCLUSIVE MODE")
        building = pool.submit(
            graph.build, index.store.url, index.store.schema, "vector", False, Watcher()
        )
        while killer.execute(graph.INDEXES, [index.store.schema]).fetchall() != [
            ("item_graph", False)
        ]:
            assert not building.done()
            time.sleep(0.02)
        killer.execute(f"SELECT pg_terminate_backend(pid, 10000) FROM ({builder}) AS builders")
        with pytest.raises(LookalikeError, match="does not answer"):
            building.result()
    assert graphs(index) == {"item_graph": False}
    assert len(index.search(index.vectors[:2], 5)) == 2
    watcher = Notes()
    index.optimize(watcher)
    assert "dropping an HNSW graph that was not finished" in watcher.said
    assert graphs(index) == {"item_graph": True}
    assert "HNSW" in Index.open(f"{index.store.url}#{index.store.schema}").approximation


def test_a_graph_that_was_not_measured_is_measured(index):
    assert graph.build(index.store.url, index.store.schema, "vector", False, Watcher())
    assert index.latest() is index
    assert index.approximation is None
    watcher = Notes()
    index.optimize(watcher)
    assert watcher.said == [f"search: {index.approximation}"]


def test_only_one_process_builds(index, postgres):
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_advisory_lock(hashtext(%s))", [f"graph of {index.store.schema}"]
        )
        watcher = Notes()
        index.optimize(watcher)
        assert watcher.said == ["another process is building the HNSW graph"]
        assert index.approximation is None


def test_compact_builds_anew(index):
    index.optimize(Watcher())
    index.remove(index.ids[:900].tolist())
    index.compact(Watcher())
    assert graphs(index) == {"item_graph": True}
    assert index.count() == len(index.ids) == COUNT - 900
    assert index.count(Filter.parse("price < 950")) == 50
