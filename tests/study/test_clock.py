"""A study with a limit of time: which rows are tried, and what is tested."""

from types import SimpleNamespace

import pytest

from lookalike.study.clock import Clock, rows_without_time
from lookalike.study.config import parse_study
from lookalike.study.driver import run_study


def row(runs_left, *, tuned=False, begun=False):
    return SimpleNamespace(runs_left=runs_left, tuned=tuned, begun=begun)


@pytest.mark.parametrize(
    ("rows", "seconds", "late"),
    [
        ([row(10), row(10)], 25, []),
        ([row(10), row(10)], 15, [1]),
        ([row(10), row(3)], 5, [0]),  # what is later may be shorter
        ([row(4, tuned=True), row(10)], 13, [1]),  # four seconds of tests are kept
        ([row(4, tuned=True), row(10)], 14, []),
        ([row(4, tuned=True), row(10, begun=True)], 5, []),  # it may end sooner
        ([row(4, tuned=True), row(10, begun=True)], 3, [1]),
        ([row(4, tuned=True)], -1, []),
    ],
)
def test_a_row_is_begun_if_it_can_be_tested_too(rows, seconds, late):
    assert rows_without_time(rows, seconds, 1.0) == [rows[at] for at in late]


def test_before_the_first_training_nothing_is_known():
    assert rows_without_time([row(10), row(10)], 0.0, 0.0) == []


class Counted(Clock):
    """Its time is up once so many trainings are done."""

    def __init__(self, pool, most):
        super().__init__(0.0)
        self.pool, self.most = pool, most

    @property
    def left(self):
        return -1.0 if len(self.pool.done) >= self.most and not self.pool.given else 1e9


def test_a_study_that_runs_out_of_time_is_resumed(in_process, study_values, tmp_path, timeless):
    """One row is tuned when the time is up; with more time the table is that of no limit."""
    values = study_values(tuner={"trials": 1}, repeats=1)
    pool = in_process()
    found = run_study(
        parse_study(values), lambda: pool, folder=tmp_path / "s", clock=Counted(pool, 2)
    )
    assert [(one.method, len(one.trials), one.seeds) for one in found.rows] == [("triplet", 1, 0)]
    assert not found.finished
    whole = run_study(parse_study(values), in_process, folder=tmp_path / "s", clock=Clock(1e9))
    assert whole.finished
    assert len(whole.rows) == 2
    alone = run_study(parse_study(values), in_process, folder=tmp_path / "other")
    assert timeless(whole) == timeless(alone)
