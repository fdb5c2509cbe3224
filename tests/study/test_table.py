"""The file of a study: what is written is read again, and a sentence for whatever is wrong."""

import dataclasses
import json
import lzma
import math
import os
import signal
import sqlite3
import statistics
import subprocess
import sys
from contextlib import closing

import numpy as np
import pytest
from scipy import stats

from lookalike.errors import BadInput, LookalikeError
from lookalike.evaluation.class_table import ClassTable
from lookalike.study import table as tables
from lookalike.study.intervals import interval
from lookalike.study.records import JOINED, Record, TaskKey
from lookalike.study.results import MethodRow, PlannedRow, Repeat, StudyResults, Trial
from lookalike.study.table import class_scores, load_results, open_table

ROW = MethodRow(
    dataset="glyphs",
    method="triplet",
    config={"loss": {"name": "triplet", "margin": 0.2}},
    tuned={"loss.margin": 0.2},
    validation=0.5,
    trials=(
        Trial(0, {"loss.margin": 0.2}, "complete", 0.5, (0.4, 0.6), 1.5),
        Trial(1, {"loss.margin": 9.0}, "pruned", None, (0.1,), 0.5),
        Trial(2, {"loss.margin": 1.0}, "failed", None, (), 0.1, "the loss is nan"),
    ),
    repeats=(
        Repeat(0, 1, (0.5, 0.5), ({"map@r": 0.2}, {"map@r": 0.4}), {"map@r": 0.5}, 2.0),
        Repeat(1, 2, (0.5, 0.5), ({"map@r": 0.3}, {"map@r": 0.5}), {"map@r": 0.7}, 2.0),
    ),
    trials_asked=3,
    repeats_asked=2,
)
PLANNED = PlannedRow("glyphs", "triplet", {}, 3, 2, 2, {"loss": {"name": "triplet"}})
HOLD = """
import sys, time
from pathlib import Path
from lookalike.study.records import Record, TaskKey
from lookalike.study.results import PlannedRow
from lookalike.study.table import open_table
planned = PlannedRow("glyphs", "triplet", {}, 3, 2, 2)
with open_table(Path(sys.argv[1])) as table:
    table.write_plan({"name": "a", "metric": "map@r", "study": {}, "facts": {}}, [planned])
    table.add(planned, TaskKey(0, 0), Record({0: {"validation map@r": 0.5}}))
    print("open", flush=True)
    time.sleep(60)
"""


def found_in(folder):
    """The records of the only row."""
    with open_table(folder) as table:
        return table.records(PLANNED)


@pytest.fixture
def folder(save_study, tmp_path):
    """A study of one row."""
    asked = dataclasses.replace(PLANNED, config=ROW.config)
    study = StudyResults(tmp_path / "small", "small", "map@r", {"seed": 3}, (asked,), (ROW,))
    return save_study(study)


def change(folder, statement, *values):
    with closing(sqlite3.connect(folder / "study.db")) as database, database:
        database.execute(statement, values)


def test_a_row_is_what_its_tasks_found(folder):
    found = load_results(folder)
    (row,) = found.rows
    failed = found.rows[0].trials[2]
    assert (failed.state, failed.error, failed.folds) == ("failed", "the loss is nan", (None,)[:0])
    assert dataclasses.replace(row, readings=()) == ROW
    assert (found.datasets, found.methods, found.study) == (("glyphs",), ("triplet",), {"seed": 3})
    assert found.finished


def test_a_study_is_unfinished_until_every_method_is(folder, save_study):
    found = load_results(folder)
    other = dataclasses.replace(PLANNED, method="margin")
    more = dataclasses.replace(found, planned=(*found.planned, other), rows=())
    more = load_results(save_study(more))
    assert not more.finished
    assert more.row("glyphs", "margin") is None
    assert not dataclasses.replace(ROW, trials_asked=4).finished


def test_a_row_counts_its_trials_and_repeats():
    assert (len(ROW.trials), ROW.failed, ROW.pruned, ROW.seeds) == (3, 1, 1, 2)
    assert ROW.values == (0.5,)
    assert ROW.seconds == pytest.approx(6.1)
    assert ROW.scores("map@r", "separate") == pytest.approx((0.3, 0.4))
    assert ROW.scores("map@r") == (0.5, 0.7)


def test_the_interval_is_that_of_students_t():
    values = [0.31, 0.35, 0.30, 0.33, 0.36]
    found = interval(values)
    low, high = stats.ttest_1samp(values, 0).confidence_interval(0.95)
    assert (found.low, found.high, found.count) == (pytest.approx(low), pytest.approx(high), 5)


def test_one_repeat_has_the_deviation_of_its_folds_and_no_interval():
    models = ({"map@r": 0.2}, {"map@r": 0.4}, {"map@r": 0.45})
    once = Repeat(0, 1, (0.5,) * 3, models, {"map@r": 0.5}, 2.0)
    found = dataclasses.replace(ROW, repeats=(once,)).interval("map@r", "separate")
    assert found.mean == pytest.approx(statistics.mean([0.2, 0.4, 0.45]))
    assert found.sd == found.half == pytest.approx(statistics.stdev([0.2, 0.4, 0.45]))
    assert (found.over, found.count) == ("folds", 3)
    assert math.isnan(found.low)
    joined = dataclasses.replace(ROW, repeats=(once,)).interval("map@r")
    assert (joined.mean, joined.half, joined.over, joined.count) == (0.5, None, "repeats", 1)


def test_what_a_task_found_takes_the_place_of_what_was_there(folder):
    table = ClassTable(("a", "b"), np.array([3, 4]), ("map@r",), np.array([[0.5], [0.25]]))
    record = Record(
        {0: {"map@r": 0.1, "rho": math.nan}, 1: {"map@r": 0.3}, JOINED: {"map@r": 0.4}},
        1.5,
        seed=7,
        asked=3,
        classes={0: table, JOINED: table},
    )
    with open_table(folder) as mine:
        for _ in range(2):
            mine.add(PLANNED, TaskKey(0, repeat=1), record)
    again = found_in(folder)[TaskKey(0, repeat=1)]
    assert math.isnan(again.scores[0].pop("rho"))
    assert again.scores == {0: {"map@r": 0.1}, 1: {"map@r": 0.3}, JOINED: {"map@r": 0.4}}
    assert (again.seconds, again.seed, again.asked) == (1.5, 7, 3)
    kept = class_scores(folder, load_results(folder).rows[0])
    assert kept.separate.keys() == {(1, 0)}
    assert kept.concatenated[1].values.tolist() == [[0.5], [0.25]]
    assert (kept.separate[1, 0].classes, kept.separate[1, 0].queries.tolist()) == (
        ("a", "b"),
        [3, 4],
    )
    with closing(sqlite3.connect(folder / "study.db")) as database:
        query = "SELECT value FROM results WHERE metric = 'map@r' AND repeat = 1 AND fold = 1"
        assert database.execute(query).fetchall() == [(0.3,)]


def test_results_tell_others_no_path(folder):
    with open_table(folder) as mine:
        mine.add(PLANNED, TaskKey(2, 1), Record(error="cannot read '/home/ann/photos/1.jpg'"))
    assert found_in(folder)[TaskKey(2, 1)].error == "cannot read '1.jpg'"


def test_a_second_process_is_refused_until_the_first_has_ended(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "BUSY_SECONDS", 0.1)
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout.readline() == "open\n"
    refused = pytest.raises(LookalikeError, match="another process runs the study in")
    with refused, open_table(tmp_path):
        pass
    assert len(load_results(tmp_path).planned) == 1  # whoever only reads is not refused
    os.kill(holder.pid, signal.SIGKILL)
    holder.communicate()
    assert found_in(tmp_path).keys() == {TaskKey(0, 0)}


@pytest.mark.parametrize(
    ("statement", "value", "words"),
    [
        ("UPDATE rows SET settings = ?", "[", "another content"),
        ("UPDATE rows SET settings = ?", "[" * 99_999, "nested too deep"),
        ("UPDATE rows SET settings = ?", None, "another content"),
        ("UPDATE rows SET settings = json_set(settings, '$.trials', ?)", "x", "trials"),
        ("UPDATE rows SET settings = json_set(settings, '$.config', ?)", "x", "config"),
        ("UPDATE study SET value = ? WHERE name = 'facts'", '{"a": 1}', "facts"),
        ("UPDATE study SET value = ? WHERE name = 'study'", "[]", "study"),
        ("DELETE FROM study WHERE name = ?", "metric", "another content"),
        ("UPDATE tasks SET facts = ?", b"\xff", "tasks|another content|utf-8"),
        ("UPDATE tasks SET facts = json_set(facts, '$.seconds', ?)", "x", "seconds"),
        (
            "UPDATE tasks SET facts = json_set(facts, '$.parameters', json(?))",
            '{"loss.margin": 1e300}',
            r"loss\.margin is 1e\+300",
        ),
        ("UPDATE scores SET value = ?", "x", "scores"),
        ("UPDATE scores SET value = ?", 1e12, "larger than 1e9"),
        ("UPDATE scores SET metric = ? WHERE metric = 'map@r'", "recall@1", "no score 'map@r'"),
        ("UPDATE scores SET metric = ?", "other", "another content|no score"),
        ("DELETE FROM scores WHERE fold < ?", 9, "another content"),
    ],
)
def test_tables_of_other_types_or_values_are_a_sentence(folder, statement, value, words):
    """SQLite keeps a value of any type in any column."""
    change(folder, statement, value)
    with pytest.raises(LookalikeError, match=words):
        load_results(folder)


@pytest.mark.parametrize(
    "changes",
    [
        {"content": b"PK nothing"},
        {"content": lzma.compress(bytes(10**6))[:50]},
        {"content": lzma.compress(bytes(3))},
        {"metrics": json.dumps(["a"] * 10**6)},
        {"folds": "5"},
    ],
    ids=["no archive", "half", "short", "many metrics", "no folds"],
)
def test_scores_per_class_of_another_shape_are_a_sentence(folder, changes):
    """What they say that they are is compared before anything is unpacked."""
    table = ClassTable(("a", "b"), np.array([3, 4]), ("map@r",), np.array([[0.5], [0.25]]))
    with open_table(folder) as mine:
        mine.add(PLANNED, TaskKey(0, repeat=0), Record({0: {"map@r": 0.1}}, classes={0: table}))
    for name, value in changes.items():
        change(folder, f"UPDATE class_scores SET {name} = ?", value)
    with pytest.raises(LookalikeError, match=r"study\.db'"):
        class_scores(folder, ROW)


def test_other_files_are_refused_in_a_sentence(folder, tmp_path):
    with pytest.raises(BadInput, match=r"no study\.db"):
        load_results(tmp_path)
    path = folder / "study.db"
    content = bytearray(path.read_bytes())
    content[2000:-100] = bytes(len(content) - 2100)
    path.write_bytes(content)
    with pytest.raises(LookalikeError, match=r"study\.db' (cannot be used|has another content)"):
        load_results(folder)
    path.write_bytes(b"nonsense")
    with pytest.raises(LookalikeError, match=r"study\.db' cannot be used: file is not a database"):
        load_results(folder)
    path.unlink()
    path.mkdir()
    refused = pytest.raises(LookalikeError, match=r"study\.db' cannot be used: unable to open")
    with refused, open_table(folder):
        pass


def test_another_format_is_refused(folder):
    change(folder, "PRAGMA user_version = 99")
    with pytest.raises(BadInput, match="format 99, and this version reads 1"):
        load_results(folder)
