"""Worker processes on this machine that live as long as the study and keep its data in memory.

A worker is ``python -m lookalike.study.local``, connected by a ``multiprocessing`` pipe. It is not
a ``concurrent.futures`` pool, because there the death of one worker ends the whole pool, and not a
``multiprocessing.Process``, because that runs the user's main script again.
"""

import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from typing import Any, Self

import torch

from lookalike.errors import LookalikeError
from lookalike.progress import Watcher
from lookalike.signals import Interrupted
from lookalike.study.records import Record, TaskKey
from lookalike.study.tasks import Task, TaskResult, TaskRunner

READY = "ready"
"""What a worker says once it can take tasks."""
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")
"""Set to 1: the same sums in the same order, however many cores there are."""
FAILED_STARTS_ALLOWED = 5
"""Per worker, before the study is stopped."""
ATTEMPTS = 5
"""Workers that may die during one task, before the task counts as failed."""
SLOW_STAGES = ("decoding", "computing features")
"""What a worker reports besides its records; the steps of a training are not."""


@dataclass(eq=False)
class Worker:
    """One process, and the task that it executes."""

    process: subprocess.Popen[bytes]
    connection: Connection
    task: Task | None = None


class LocalExecutor:
    """``workers`` processes of one thread each; one that dies is replaced."""

    def __init__(self, workers: int, watcher: Watcher) -> None:
        self.size = workers
        self.watcher = watcher
        self.workers: list[Worker] = []
        self.failed_starts = 0
        self.deaths: Counter[tuple[int, TaskKey]] = Counter()
        """By the name of a task: the workers that died during it."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self.workers:
            worker.process.kill()  # its task is recorded, or is executed again
            worker.process.wait()
            worker.connection.close()

    @property
    def slots(self) -> int:
        """How many more tasks can be submitted now."""
        return self.size - sum(worker.task is not None for worker in self.workers)

    def submit(self, task: Task) -> None:
        """Give a task to a free worker, starting one if needed."""
        worker = next((w for w in self.workers if w.task is None), None) or self._start()
        worker.task = task
        with suppress(OSError):  # it is dead: ``wait`` will return its task
            worker.connection.send(task)

    def wait(self, timeout: float) -> list[TaskResult]:
        """Finished tasks; empty after ``timeout`` seconds.

        The task of a worker that died is given to another one, at most ``ATTEMPTS`` times.
        """
        outcomes: list[TaskResult] = []
        by_connection = {worker.connection: worker for worker in self.workers}
        for connection in wait(list(by_connection), timeout):
            worker = by_connection[connection]  # type: ignore[index]
            try:
                outcomes += self._handle(worker, worker.connection.recv())
            except (EOFError, OSError):
                outcomes += self._reap(worker)
        return outcomes

    def _handle(self, worker: Worker, message: Any) -> list[TaskResult]:
        if isinstance(message, Record):
            task, worker.task = worker.task, None
            return [TaskResult(task, message)]
        if message == READY:
            self.failed_starts = 0
        else:
            self.watcher.stage(*message)
        return []

    def _start(self) -> Worker:
        ours, theirs = Pipe()
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "lookalike.study.local", str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=sys.__stderr__,  # standard output is the driver's
            env=os.environ
            | dict.fromkeys(THREADS, "1")
            | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            start_new_session=True,  # Ctrl-C is handled by the driver
        )
        theirs.close()
        self.workers.append(Worker(process, ours))
        return self.workers[-1]

    def _reap(self, worker: Worker) -> list[TaskResult]:
        worker.connection.close()
        code = worker.process.wait()
        self.workers.remove(worker)
        self.failed_starts += 1
        if self.failed_starts > FAILED_STARTS_ALLOWED * self.size:
            raise LookalikeError(
                f"workers die as soon as they are started (the last with exit code {code})"
            )
        task, reason = worker.task, describe_exit(code)
        if task is None:
            return []
        self.deaths[task.name] += 1
        if self.deaths[task.name] == ATTEMPTS:
            return [TaskResult(task, None, f"{ATTEMPTS} workers died of it, the last one {reason}")]
        self.watcher.note(f"a worker died ({reason}); another one does its task")
        self.submit(task)
        return []


def describe_exit(code: int) -> str:
    """How a process ended, for a message.

    >>> describe_exit(-9), describe_exit(3)
    ('killed by SIGKILL, as a system out of memory does', 'with exit code 3')
    """
    if code >= 0:
        return f"with exit code {code}"
    name = signal.Signals(-code).name
    return f"killed by {name}" + ", as a system out of memory does" * (code == -signal.SIGKILL)


class WorkerWatcher(Watcher):
    """Reports slow stages to the driver, at most twice a second."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.reported = 0.0

    def stage(self, name: str, done: int, total: int, detail: str = "") -> None:
        """Send the progress of a slow stage."""
        recent = done < total and time.monotonic() - self.reported < 0.5
        if name in SLOW_STAGES and not recent:
            self.reported = time.monotonic()
            self.connection.send((name, done, total, detail))

    def note(self, text: str) -> None:
        """Epochs of a run are not reported."""


def run_worker(connection: Connection) -> None:
    """Execute tasks until the driver closes the connection."""
    threading.Thread(target=exit_with, args=(os.getppid(),), daemon=True).start()
    torch.set_num_threads(1)
    runner = TaskRunner(WorkerWatcher(connection))
    connection.send(READY)
    while True:
        try:
            task = connection.recv()
        except (EOFError, ConnectionError):  # closed, or the driver was killed
            return
        try:
            connection.send(runner.run(task))
        except Interrupted as stopped:
            sys.exit(stopped.exit_code)
        except ConnectionError:
            return


def exit_with(parent: int) -> None:
    """End this process when the driver has ended, for whatever reason."""
    while os.getppid() == parent:
        time.sleep(0.2)
    os._exit(1)


if __name__ == "__main__":
    run_worker(Connection(int(sys.argv[1])))
