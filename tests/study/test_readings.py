"""When a study reads test labels, and how often: after every winner is chosen, and counted."""

import dataclasses
import zlib

import pytest
from typer.testing import CliRunner

from lookalike.cli import app
from lookalike.compare.comparison import compare
from lookalike.compare.contenders import gather
from lookalike.errors import BadInput
from lookalike.study.config import parse_study
from lookalike.study.driver import run_study
from lookalike.study.plan import make_plan
from lookalike.study.progress import readings_of
from lookalike.study.result_files import load_results, row_file, write_method
from lookalike.study.results import PlannedRow, Reading
from lookalike.study.status import status_of, status_table


@pytest.fixture
def values(study_values):
    """Every search is random, so that more trials may find another winner."""
    return study_values(tuner={"name": "random", "trials": 2}, repeats=1)


class MadeUp:
    """Gives a record to every task, and trains nothing."""

    def run(self, task):
        score = zlib.crc32(task.key.encode()) / 2**32
        tested = {"recall@1": score, "map@r": score}
        both = {"validation": [score] * 2, "separate": [tested] * 2, "concatenated": tested}
        records = {
            "validate": {"score": score, "last": score},
            "repeat": both,
            "baselines": {
                "rows": [{"baseline": "pca", "dim": 8, "parameters": {}, "seconds": 1.0} | both]
            },
        }
        return records[task.kind] | {"seconds": 1.0}


@pytest.fixture
def study(in_process, tmp_path):
    def run(values, most=1000):
        pool = in_process(most)
        pool.runner = MadeUp()
        run_study(parse_study(values), lambda: pool, folder=tmp_path / "s")
        return load_results(tmp_path / "s"), pool.done

    return run


def is_test(key):
    return "/winner-" in key or key.endswith("/baselines")


def test_no_test_label_is_read_before_every_winner_is_chosen(study, values):
    found, done = study(values)
    assert found.finished
    tests = [is_test(key) for key in done]
    assert sum(tests) == 3  # one repeat of two methods, and the baselines
    assert tests == sorted(tests)  # all trials of all methods come first


def test_the_status_shows_no_test_score_while_others_are_tuned(study, values, tmp_path):
    study(values | {"methods": ["triplet"]})
    assert status_of(tmp_path / "s")["methods"][0]["test"] is not None
    with pytest.raises(KeyboardInterrupt):  # the second method is half tuned
        study(values, most=2)
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
    worse = tuple(
        dataclasses.replace(one, folds=(0.0, 0.0), value=0.0) if one.number == read.trial else one
        for one in first.trials
    )
    write_method(tmp_path / "s", dataclasses.replace(first, trials=worse))  # so that another wins
    for path in (tmp_path / "s").glob("study.db*"):
        path.unlink()
    more = values | methods | {"tuner": {"name": "random", "trials": 3}}
    plan = make_plan(parse_study(more), tmp_path / "s")
    plan.resume()
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
    write_method(tmp_path / "s", dataclasses.replace(found.rows[0], outdated="it was wrong"))
    row = study(values | {"methods": ["triplet"]})[0].rows[0]
    assert [one.reason for one in row.readings] == ["outdated", ""]


def test_more_trials_are_asked_for_than_there_are(make_study, tmp_path):
    """The study's head is written before the first new trial: from then on nothing is shown."""
    found = load_results(make_study(tmp_path / "m", trials=6))
    assert found.chosen
    more = [PlannedRow(row.dataset, row.method, {}, 9, 5, 4) for row in found.rows]
    assert not dataclasses.replace(found, planned=tuple(more)).chosen


def test_rows_from_before_readings_were_counted_have_one(study, values, tmp_path):
    found, _ = study(values | {"methods": ["triplet"]})
    old = dataclasses.replace(found.rows[0], readings=())
    assert old.times_read == 1
    assert readings_of(old) == found.rows[0].readings
    assert isinstance(readings_of(old)[0], Reading)
    assert row_file(tmp_path / "s", "folder", "triplet").is_file()
