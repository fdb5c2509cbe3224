"""Worker processes of one machine: records, deaths, and workers that cannot start."""

import multiprocessing
import shutil
import subprocess
import sys

import pytest

from lookalike.errors import LookalikeError
from lookalike.progress import Watcher
from lookalike.study import local
from lookalike.study.local import LocalExecutor
from lookalike.study.records import TaskKey
from lookalike.study.tasks import Task


def task(number):
    """Work that fails at once, as there is no such configuration."""
    return Task(0, TaskKey(number, 0), {"nothing": number})


def outcomes_of(executor):
    found = []
    while not found:
        found = executor.wait(0.5)
    return found


def test_the_task_of_a_dead_worker_is_done_by_another_one():
    class Notes(Watcher):
        told = ()

        def note(self, text):
            self.told = (*self.told, text)

    notes = Notes()
    with LocalExecutor(1, notes) as executor:
        executor.submit(task(0))
        assert executor.slots == 0
        (first,) = outcomes_of(executor)
        assert (first.task, executor.slots) == (task(0), 1)
        assert "there is no key 'nothing'" in first.record.error
        (worker,) = executor.workers
        worker.process.kill()
        worker.process.wait()
        executor.submit(task(1))  # to the dead worker
        (again,) = outcomes_of(executor)
        assert again.task == task(1)
        assert "there is no key 'nothing'" in again.record.error
        (worker,) = executor.workers
    assert notes.told[0].startswith("a worker died (killed by SIGKILL")
    assert worker.process.poll() is not None  # no process is left behind


def test_workers_that_cannot_start_end_the_study(monkeypatch):
    monkeypatch.setattr(local, "FAILED_STARTS_ALLOWED", 1)
    monkeypatch.setattr(sys, "executable", shutil.which("false"))
    words = r"workers die as soon as they are started \(the last with exit code 1\)"
    with LocalExecutor(1, Watcher()) as executor, pytest.raises(LookalikeError, match=words):
        while True:
            executor.submit(task(0))
            outcomes_of(executor)


def test_a_worker_whose_driver_was_killed_ends_without_a_word():
    """What it has sent is unread, so its next read fails instead of coming to an end."""
    own, given = multiprocessing.Pipe()
    command = [sys.executable, "-m", "lookalike.study.local", str(given.fileno())]
    with subprocess.Popen(
        command, pass_fds=[given.fileno()], stderr=subprocess.PIPE, text=True
    ) as worker:
        given.close()
        assert own.poll(120)
        own.close()
        _, errors = worker.communicate(timeout=60)
    assert (worker.returncode, errors) == (0, "")
