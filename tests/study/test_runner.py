"""What a task that was stopped, or failed, leaves."""

import pytest

from lookalike.study import runner
from lookalike.study.runner import Task, TaskRunner
from lookalike.training.signals import Interrupted


def test_a_stopped_task_is_no_failed_one(monkeypatch):
    """A machine that shuts down sends SIGTERM to workers too: their trials are run again."""

    def stopped(*_):
        raise Interrupted("stopped at step 3")

    monkeypatch.setattr(runner, "train", stopped)
    with pytest.raises(Interrupted):
        TaskRunner().run(Task("a", "validate", {}, checkpoints=True))


def test_a_record_has_no_path_of_this_machine():
    task = Task("a", "validate", {"data": {"name": "folder", "root": "/home/ann/photos"}})
    error = TaskRunner().run(task)["error"]
    assert "photos" in error
    assert "/home" not in error
