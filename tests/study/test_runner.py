"""What a task that was stopped, or failed, leaves."""

import pytest

from lookalike.signals import Interrupted
from lookalike.study import runner
from lookalike.study.config import parse_study
from lookalike.study.plan import make_plan
from lookalike.study.runner import Task, TaskRunner
from lookalike.training import building


def test_a_stopped_task_is_no_failed_one(monkeypatch):
    """A machine that shuts down sends SIGTERM to workers too: their trials are run again."""

    def stopped(*_, **__):
        raise Interrupted("stopped at step 3")

    monkeypatch.setattr(runner, "train", stopped)
    with pytest.raises(Interrupted):
        TaskRunner().run(Task("a", "validate", {}, checkpoints=True))


def test_a_record_has_no_path_of_this_machine():
    task = Task("a", "validate", {"data": {"name": "folder", "root": "/home/ann/photos"}})
    error = TaskRunner().run(task)["error"]
    assert "photos" in error
    assert "/home" not in error


def test_the_time_of_features_is_not_that_of_a_training(study_values, tmp_path, monkeypatch):
    """Computing the features takes a thousand seconds; only the first task waits for it."""
    plan = make_plan(parse_study(study_values(methods=["triplet"])), tmp_path)
    compute, clock, late = building.open_features, runner.time.monotonic, []

    def slow(*arguments):
        late.append(1000)
        return compute(*arguments)

    monkeypatch.setattr(building, "open_features", slow)
    monkeypatch.setattr(runner.time, "monotonic", lambda: clock() + sum(late))
    executor = TaskRunner()
    (task,) = plan.methods[0].ready
    first, second = executor.run(task), executor.run(task)
    assert (first["preparing_seconds"] > 1000, first["seconds"] < 1000) == (True, True)
    assert second["preparing_seconds"] < 1000
    assert first["score"] == second["score"]
