"""Tasks on a Ray cluster: long-lived actors, each with the CPUs and GPUs of one task."""

import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import torch

from lookalike.errors import BadInput, LookalikeError
from lookalike.progress import Watcher
from lookalike.registry import TRUSTED
from lookalike.study.runner import Outcome, Task, TaskRunner

START_SECONDS = 300.0
"""How long an actor may take to start before it is given up."""

UNITS = 10_000
"""Ray counts resources in ten-thousandths."""


class RunnerActor:
    """A task runner on some node of the cluster."""

    def __init__(self, threads: int) -> None:
        torch.set_num_threads(threads)
        self.runner = TaskRunner()

    def ready(self) -> None:
        """Return once the actor has started."""

    def run(self, task: Task) -> dict[str, Any]:
        """Execute one task."""
        return self.runner.run(task)


@dataclass(eq=False)
class Worker:
    """One actor, and the task that it executes."""

    actor: Any
    ready: Any
    """Ray's reference to a call that returns once the actor has started."""
    task: Any = None
    record: Any = None
    """Ray's reference to the record of the task."""
    created: float = field(default_factory=time.monotonic)
    started: bool = False


def places_on(node: Mapping[str, float], needs: Mapping[str, float]) -> int:
    """For how many actors with ``needs`` a node has resources.

    A fraction of a GPU lies on one GPU, so each device has room for floor(1 / fraction).

    >>> places_on({"CPU": 8, "GPU": 2}, {"CPU": 1, "GPU": 0.35})
    4
    """
    found = []
    for kind, each in needs.items():
        wanted, there = round(each * UNITS), round(node.get(kind, 0) * UNITS)
        if kind == "GPU" and wanted < UNITS:
            found.append(there // UNITS * (UNITS // wanted))
        else:
            found.append(there // wanted)
    return min(found)


def _job() -> Any:
    """A job whose actors search for modules as this process does.

    Ray would let them search the current folder before all others: a module beside the data would
    replace a library.
    """
    from ray.job_config import JobConfig

    class Job(JobConfig):
        def _runtime_env_has_working_dir(self) -> bool:
            return True  # of its own, says this, so that Ray adds no folder

    return Job(_py_driver_sys_path=list(filter(None, sys.path[:1])))


class RayExecutor:
    """As many actors as the cluster has room for, or ``workers``; those of dead nodes are dropped.

    An actor that has not started after ``start_seconds`` is given up; another one gets its task.
    (``ray.util.ActorPool`` does not report which task was lost when an actor dies.)

    ``actor`` is the class of the actors: it is made with its number of threads and ``arguments``,
    and has ``ready()`` and ``run(task)``. ``work`` is what a message calls the whole.
    """

    def __init__(
        self,
        address: str | None = None,
        *,
        workers: int | None = None,
        cpus: float = 1,
        gpus: float = 0,
        start_seconds: float = START_SECONDS,
        watcher: Watcher | None = None,
        actor: type = RunnerActor,
        work: str = "study",
    ) -> None:
        try:
            import ray
        except ImportError:
            raise BadInput(
                "--executor ray needs the package ray: pip install 'lookalike[cluster]'"
            ) from None
        for name, amount in (("cpus", cpus), ("gpus", gpus)):
            if amount != 0 and not amount * UNITS >= 1:
                raise BadInput(f"--{name} {amount:g} is invalid: give 0.0001 or more, or 0")
        if gpus > 1 and gpus != int(gpus):
            raise BadInput(f"--gpus {gpus:g} is invalid: give a fraction of one GPU or whole ones")
        self.ray: Any = ray
        self.address = address
        self.limit = workers
        self.cpus, self.gpus = cpus, gpus
        self.start_seconds = start_seconds
        self.watcher = watcher or Watcher()
        self.workers: list[Worker] = []
        self.connected = False
        self.actor, self.work = actor, work
        self.arguments: Sequence[Any] = ()

    def __enter__(self) -> Self:
        if not self.ray.is_initialized():
            former = signal.getsignal(signal.SIGTERM)
            try:
                trusted = {name: os.environ[name] for name in (TRUSTED,) if name in os.environ}
                self.ray.init(
                    address=self.address,
                    log_to_driver=False,
                    logging_level=logging.ERROR,
                    include_dashboard=False,  # it starts whatever a page of the browser tells it
                    runtime_env={"env_vars": trusted} if trusted else None,
                    job_config=_job(),
                )
            except (ConnectionError, ValueError) as error:
                reason = " ".join(str(error).split())
                raise BadInput(f"no Ray cluster at '{self.address}': {reason}") from None
            self.connected = True
            if threading.current_thread() is threading.main_thread():
                signal.signal(signal.SIGTERM, former)  # Ray's own ends the process at once
        if not self.room():
            self.__exit__()
            raise BadInput(
                f"the Ray cluster has no room for {self.cpus:g} CPUs, {self.gpus:g} GPUs"
            )
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self.workers:
            self.ray.kill(worker.actor)
        if self.connected:
            self.ray.shutdown()

    @property
    def size(self) -> int:
        """How many tasks run at the same time."""
        return max(1, self.room())

    @property
    def slots(self) -> int:
        """How many more tasks can be submitted now."""
        return self.room() - sum(worker.task is not None for worker in self.workers)

    def room(self) -> int:
        """For how many actors the living nodes have resources."""
        total = [node["Resources"] for node in self.ray.nodes() if node["Alive"]]
        places = sum(places_on(node, self.needs()) for node in total)
        return places if self.limit is None else min(places, self.limit)

    def needs(self) -> dict[str, float]:
        """The resources of one actor."""
        wanted = {"CPU": self.cpus, "GPU": self.gpus}
        return {kind: amount for kind, amount in wanted.items() if amount} or {"CPU": 1.0}

    def submit(self, task: Any) -> None:
        """Give a task to a free actor, starting one if needed."""
        worker = next((w for w in self.workers if w.task is None), None) or self._start()
        worker.task = task
        worker.record = worker.actor.run.remote(task)

    def wait(self, timeout: float) -> list[Outcome]:
        """Finished tasks, and those of actors that died; empty after ``timeout`` seconds."""
        waiting = {worker.record: worker for worker in self.workers if worker.task is not None}
        if not waiting:
            time.sleep(timeout)
            return []
        overdue = self._overdue()
        if overdue:
            return overdue
        ready, _ = self.ray.wait(list(waiting), num_returns=1, timeout=timeout)
        outcomes = []
        for reference in ready:
            worker = waiting[reference]
            task, worker.task = worker.task, None
            assert task is not None
            try:
                outcomes.append(Outcome(task, self.ray.get(reference)))
            except self.ray.exceptions.RayError:  # the actor or its node is gone
                self.workers.remove(worker)
                outcomes.append(Outcome(task, None))
        return outcomes or self._without_room()

    def _without_room(self) -> list[Outcome]:
        """Give up an actor that a dead node left no room for: it would wait forever."""
        if len(self.workers) <= self.room():
            return []
        worker = self.workers.pop()
        self.ray.kill(worker.actor)
        return [Outcome(worker.task, None)] if worker.task is not None else []

    def _overdue(self) -> list[Outcome]:
        """Give up actors that did not start in time: others use the resources."""
        waiting = {worker.ready: worker for worker in self.workers if not worker.started}
        if not waiting:
            return []
        ready, _ = self.ray.wait(list(waiting), num_returns=len(waiting), timeout=0)
        for reference in ready:
            waiting[reference].started = True
        latest = time.monotonic() - self.start_seconds
        late = [w for w in waiting.values() if not w.started and w.created < latest]
        if not late:
            return []
        within = f"on the Ray cluster within {self.start_seconds:g} s"
        if len(late) == len(self.workers):
            raise LookalikeError(
                f"no worker started {within}: one needs {amounts(self.needs())}, "
                f"and {amounts(self.ray.available_resources())} are free"
            )
        for worker in late:
            self.workers.remove(worker)
            self.ray.kill(worker.actor)
        self.limit = len(self.workers)
        self.watcher.note(
            f"{len(late)} of {len(late) + self.limit} workers did not start {within}; "
            f"the {self.work} continues with {self.limit}"
        )
        return [Outcome(worker.task, None) for worker in late if worker.task is not None]

    def _start(self) -> Worker:
        remote = self.ray.remote(num_cpus=self.cpus, num_gpus=self.gpus)(self.actor)
        actor = remote.remote(max(1, int(self.cpus)), *self.arguments)
        self.workers.append(Worker(actor, actor.ready.remote()))
        return self.workers[-1]


def amounts(resources: Mapping[str, float]) -> str:
    """CPUs and GPUs for a message."""
    return ", ".join(f"{resources.get(kind, 0):g} {kind}s" for kind in ("CPU", "GPU"))
