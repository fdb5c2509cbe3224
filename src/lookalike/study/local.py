"""Worker processes on this machine that live as long as the study and keep its data in memory."""

import json
import os
import selectors
import subprocess
import sys
from dataclasses import asdict, dataclass
from typing import Any, Self

from lookalike.errors import LookalikeError
from lookalike.progress import Watcher
from lookalike.study.tasks import Outcome, Task

__all__ = ["LocalExecutor"]

THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")
BIRTHS_WITHOUT_WORK = 5


@dataclass(eq=False)
class Worker:
    """One process, and what it is at."""

    process: subprocess.Popen[bytes]
    task: Task | None = None
    unread: bytes = b""


class LocalExecutor:
    """``workers`` processes of one thread each; one that dies is replaced."""

    def __init__(self, workers: int, watcher: Watcher) -> None:
        self.count = workers
        self.watcher = watcher
        self.workers: list[Worker] = []
        self.selector = selectors.DefaultSelector()
        self.deaths = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self.workers:
            worker.process.kill()  # its work is in the ledger, or is done again
            worker.process.wait()
        self.selector.close()

    @property
    def slots(self) -> int:
        """How many more tasks can be given now."""
        return self.count - sum(worker.task is not None for worker in self.workers)

    @property
    def size(self) -> int:
        """How many tasks run at the same time."""
        return self.count

    def submit(self, task: Task) -> None:
        """Give a task to a free worker, starting one if need be."""
        worker = next((w for w in self.workers if w.task is None), None) or self._start()
        worker.task = task
        line = json.dumps(asdict(task)).encode() + b"\n"
        try:
            assert worker.process.stdin is not None
            worker.process.stdin.write(line)
            worker.process.stdin.flush()
        except BrokenPipeError:
            pass  # it is dead: ``wait`` will say so

    def wait(self, timeout: float) -> list[Outcome]:
        """What was done, or was left by workers that died; empty after ``timeout`` seconds."""
        outcomes: list[Outcome] = []
        for key, _ in self.selector.select(timeout):
            worker: Worker = key.data
            chunk = os.read(key.fd, 1 << 16)
            if not chunk:
                outcomes += self._bury(worker)
                continue
            *lines, worker.unread = (worker.unread + chunk).split(b"\n")
            for line in lines:
                outcomes += self._heard(worker, json.loads(line))
        return outcomes

    def _heard(self, worker: Worker, message: dict[str, Any]) -> list[Outcome]:
        if "ready" in message:
            self.deaths = 0
            return []
        if "stage" in message:
            self.watcher.stage(*message["stage"])
            return []
        task, worker.task = worker.task, None
        return [Outcome(task, message)] if task is not None else []

    def _start(self) -> Worker:
        process = subprocess.Popen(
            [sys.executable, "-m", "lookalike.study.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ
            | dict.fromkeys(THREADS, "1")
            | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            start_new_session=True,  # Ctrl-C is the driver's to handle
        )
        worker = Worker(process)
        self.workers.append(worker)
        assert process.stdout is not None
        self.selector.register(process.stdout, selectors.EVENT_READ, worker)
        return worker

    def _bury(self, worker: Worker) -> list[Outcome]:
        assert worker.process.stdout is not None
        self.selector.unregister(worker.process.stdout)
        worker.process.stdout.close()
        code = worker.process.wait()
        self.workers.remove(worker)
        self.deaths += 1
        if self.deaths > BIRTHS_WITHOUT_WORK * self.count:
            raise LookalikeError(
                f"workers die as soon as they are started (the last with exit code {code})"
            )
        return [Outcome(worker.task, None)] if worker.task is not None else []
