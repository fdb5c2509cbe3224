"""A study with a limit of time: which rows are tried, and what is tested."""

from types import SimpleNamespace

import pytest

from lookalike.study.config import parse_study
from lookalike.study.driver import Clock, run_study
from lookalike.study.plan import Plan


def plan(rows):
    """Rows with so many trainings left; ``tuned`` is what is done, ``records`` what has begun."""
    found = [
        SimpleNamespace(
            runs_left=left,
            tuned="tuned" in state,
            records="begun" in state,
            left_out=False,
            method=SimpleNamespace(label=number, baseline=False),
        )
        for number, (left, state) in enumerate(rows)
    ]
    return Plan(None, None, {}, found)


@pytest.mark.parametrize(
    ("rows", "seconds", "late"),
    [
        ([(4, "tuned"), (10, "")], 13, [1]),  # four seconds of tests are kept
        ([(4, "tuned"), (10, "")], 14, []),
        ([(4, "tuned"), (10, ""), (3, "")], 8, [1]),  # what is later may be shorter
        ([(4, "tuned"), (10, "begun")], 5, []),  # it may end sooner
        ([(4, "tuned"), (10, "begun")], 3, [1]),
        ([(4, "tuned")], -1, []),
        ([(10, ""), (10, "")], 0, []),  # before a row is tuned none is left out
    ],
)
def test_a_row_is_begun_if_it_can_be_tested_too(rows, seconds, late):
    assert plan(rows).leave_out_late(seconds, 1.0) == late


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
        parse_study(values), lambda: pool, folder=tmp_path / "s", clock=Counted(pool, 20)
    )
    assert [(one.method, len(one.trials), one.seeds) for one in found.rows] == [("triplet", 1, 0)]
    assert not found.finished
    whole = run_study(parse_study(values), in_process, folder=tmp_path / "s", clock=Clock(1e9))
    assert whole.finished
    assert len(whole.rows) == 2
    alone = run_study(parse_study(values), in_process, folder=tmp_path / "other")
    assert timeless(whole) == timeless(alone)
