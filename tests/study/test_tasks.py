"""What a task that was stopped, or failed, leaves."""

import pytest

from lookalike.signals import Interrupted
from lookalike.study import tasks
from lookalike.study.config import parse_study
from lookalike.study.plan import make_plan
from lookalike.study.records import TaskKey
from lookalike.study.tasks import Task, TaskRunner
from lookalike.training import building


def test_a_stopped_task_is_no_failed_one(monkeypatch, study_values, tmp_path):
    """A machine that shuts down sends SIGTERM to workers too: their trials are run again."""

    def stopped(*_, **__):
        raise Interrupted("stopped at step 3")

    plan = make_plan(parse_study(study_values(methods=["triplet"])), tmp_path)
    monkeypatch.setattr(tasks, "train_once", stopped)
    with pytest.raises(Interrupted):
        TaskRunner().run(plan.methods[0].ready[0])


def test_a_failed_task_says_why():
    task = Task(0, TaskKey(0, 0), {"data": {"name": "folder", "root": "/home/ann/photos"}})
    assert "photos" in TaskRunner().run(task).error


def test_the_time_of_features_is_not_that_of_a_training(study_values, tmp_path, monkeypatch):
    """Computing the features takes a thousand seconds; only the first task waits for it."""
    plan = make_plan(parse_study(study_values(methods=["triplet"])), tmp_path)
    compute, clock, late = building.open_features, tasks.time.monotonic, []

    def slow(*arguments):
        late.append(1000)
        return compute(*arguments)

    monkeypatch.setattr(building, "open_features", slow)
    monkeypatch.setattr(tasks.time, "monotonic", lambda: clock() + sum(late))
    executor = TaskRunner()
    (task,) = plan.methods[0].ready
    first, second = executor.run(task), executor.run(task)
    assert first.preparing_seconds > 1000 > first.seconds
    assert second.preparing_seconds < 1000
    assert first.scores == second.scores
