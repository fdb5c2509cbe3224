"""When a study reads test labels, and how often: after every winner is chosen, and counted."""

import dataclasses
import sqlite3
import zlib
from contextlib import closing

import pytest
from typer.testing import CliRunner

from lookalike.cli import app
from lookalike.compare.comparison import compare
from lookalike.compare.contenders import gather
from lookalike.errors import BadInput
from lookalike.study.config import parse_study
from lookalike.study.driver import run_study
from lookalike.study.plan import make_plan
from lookalike.study.records import Record
from lookalike.study.results import PlannedRow
from lookalike.study.status import status_of, status_table
from lookalike.study.table import load_results, open_table


@pytest.fixture
def values(study_values):
    """Every search is random, so that more trials may find another winner."""
    return study_values(tuner={"name": "random", "trials": 2}, repeats=1)


class MadeUp:
    """Gives a record to every task, and trains nothing."""

    def run(self, task):
        score = zlib.crc32(repr(task.name).encode()) / 2**32
        chosen = {"validation map@r": score}
        if task.key.repeat < 0:
            found = Record({task.key.fold: chosen}, parameters=task.parameters)
        else:
            tested = {"recall@1": score, "map@r": score}
            found = Record({0: chosen | tested, 1: chosen | tested, -1: tested}, asked=task.asked)
        return dataclasses.replace(found, seconds=1.0)


@pytest.fixture
def study(in_process, tmp_path):
    def run(values, most=1000):
        pool = in_process(most)
        pool.runner = MadeUp()
        run_study(parse_study(values), lambda: pool, folder=tmp_path / "s")
        return load_results(tmp_path / "s"), pool.done

    return run


def test_no_test_label_is_read_before_every_winner_is_chosen(study, values):
    found, done = study(values)
    assert found.finished
    tests = [task.key.repeat >= 0 for task in done]
    assert sum(tests) == 5  # one repeat of two methods, and of three baselines
    assert tests == sorted(tests)  # all trials of all methods come first


def test_the_status_shows_no_test_score_while_others_are_tuned(study, values, tmp_path):
    study(values | {"methods": ["triplet"]})
    assert status_of(tmp_path / "s")["methods"][0]["test"] is not None
    with pytest.raises(KeyboardInterrupt):  # the second method is half tuned
        study(values, most=1)
    found = status_of(tmp_path / "s")
    assert [part["test"] for part in found["methods"]] == [None, None]
    assert found["baselines"] == {"folder": {}}
    assert "no test score is shown, or read, before every winner is chosen" in status_table(found)
    with pytest.raises(BadInput, match="is still searching: no test score before every winner"):
        gather([tmp_path / "s"])


def test_more_trials_do_not_silently_replace_a_winner_that_was_tested(study, values, tmp_path):
    methods = {"methods": ["triplet"]}
    first = study(values | methods)[0].rows[0]
    assert [one.trials for one in first.readings] == [2]
    assert (first.times_read, first.read_again) == (1, "")
    (read,) = first.readings
    with closing(sqlite3.connect(tmp_path / "s" / "study.db")) as database, database:
        database.execute(  # so that another one wins
            "UPDATE scores SET value = 0 WHERE task IN (SELECT tasks.id FROM tasks JOIN rows "
            "ON rows.id = row WHERE label = 'triplet' AND repeat < 0 AND trial = ?)",
            (read.trial,),
        )
    more = values | methods | {"tuner": {"name": "random", "trials": 3}}
    plan = make_plan(parse_study(more), tmp_path / "s")
    with open_table(tmp_path / "s") as table:
        plan.resume(table)
    assert "the test set was read for triplet" in plan.read_before()
    row = study(more)[0].rows[0]
    assert row.times_read == 2
    before, now = row.readings
    assert before == dataclasses.replace(read, reason="replaced after more trials")
    assert before.score == pytest.approx(first.repeats[0].score("map@r", "separate"))
    assert (now.reason, now.trials, now.repeats) == ("", 3, 1)
    assert now.trial != before.trial
    shown = CliRunner().invoke(app, ["study", "status", str(tmp_path / "s")]).stdout
    assert "the test set was read 2 times" in shown
    (part,) = compare(gather([tmp_path / "s"]), "map@r").datasets
    assert part.readings == (
        "The test set was read 2 times for triplet: the last choice knew test scores."
    )
    assert any("the test set was read 2 times" in flaw.sentence for flaw in part.audit.flaws)


def test_more_repeats_of_a_winner_are_no_other_choice(study, values):
    study(values | {"methods": ["triplet"]})
    row = study(values | {"methods": ["triplet"], "repeats": 2})[0].rows[0]
    assert [(one.repeats, one.reason) for one in row.readings] == [(2, "")]


def test_a_row_that_is_trained_again_was_read_before(study, values, tmp_path):
    found, _ = study(values | {"methods": ["triplet"]})
    assert found.rows[0].times_read == 1
    with closing(sqlite3.connect(tmp_path / "s" / "study.db")) as database, database:
        outdated = "UPDATE rows SET settings = json_set(settings, '$.outdated', 'it was wrong')"
        database.execute(outdated)
    row = study(values | {"methods": ["triplet"]})[0].rows[0]
    assert [one.reason for one in row.readings] == ["outdated", ""]


def test_more_trials_are_asked_for_than_there_are(make_study, tmp_path):
    """The study's head is written before the first new trial: from then on nothing is shown."""
    found = load_results(make_study(tmp_path / "m", trials=6))
    assert found.chosen
    more = [PlannedRow(row.dataset, row.method, {}, 9, 5, 4) for row in found.rows]
    assert not dataclasses.replace(found, planned=tuple(more)).chosen
