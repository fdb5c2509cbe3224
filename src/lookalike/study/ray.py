"""Tasks on a Ray cluster, each with its CPUs and GPUs.

Ray finds them a node, gives each GPU to as many as it has room for, and executes the tasks of a
worker or node that died again; those for which there is no room yet wait in its queue.
"""

import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any, Self

import torch

from lookalike.errors import BadInput
from lookalike.progress import Watcher
from lookalike.registry import TRUSTED
from lookalike.study.records import Record
from lookalike.study.tasks import Task, TaskResult, TaskRunner

RETRIES = 4
"""How often Ray executes a task again whose worker or node died."""
LEAST = 0.0001
"""Ray counts resources in ten-thousandths."""
_actors: dict[str, Any] = {}
"""What does the work of the present job; it lives as long as its process."""


class RunnerActor:
    """A task runner on some node of the cluster."""

    def __init__(self, threads: int) -> None:
        torch.set_num_threads(threads)
        self.runner = TaskRunner()

    def run(self, task: Task) -> Record:
        """Execute one task."""
        return self.runner.run(task)


def run_in_worker(job: str, actor: type, threads: int, arguments: Sequence[Any], task: Any) -> Any:
    """Execute one task in a process of the cluster, which Ray uses for many of them.

    Data and features stay in memory between the tasks of one job.
    """
    if job not in _actors:
        import ray

        _actors.clear()
        _actors[job] = actor(threads, *ray.get(list(arguments)))
    return _actors[job].run(task)


def _job() -> Any:
    """A job whose workers search for modules as this process does.

    Ray would let them search the current folder before all others: a module beside the data would
    replace a library.
    """
    from ray.job_config import JobConfig

    class Job(JobConfig):
        def _runtime_env_has_working_dir(self) -> bool:
            return True  # of its own, says this, so that Ray adds no folder

    return Job(_py_driver_sys_path=list(filter(None, sys.path[:1])))


class RayExecutor:
    """As many tasks at the same time as the cluster has room for, or ``workers``.

    ``actor`` is the class of what executes them: it is made once for a process with its number of
    threads and ``arguments`` (Ray's references), and has ``run(task)``.
    """

    def __init__(
        self,
        address: str | None = None,
        *,
        workers: int | None = None,
        cpus: float = 1,
        gpus: float = 0,
        watcher: Watcher | None = None,
        actor: type = RunnerActor,
    ) -> None:
        try:
            import ray
        except ImportError:
            raise BadInput(
                "--executor ray needs the package ray: pip install 'lookalike[cluster]'"
            ) from None
        for name, amount in (("cpus", cpus), ("gpus", gpus)):
            if amount != 0 and not amount >= LEAST:
                raise BadInput(f"--{name} {amount:g} is invalid: give 0.0001 or more, or 0")
        if gpus > 1 and gpus != int(gpus):
            raise BadInput(f"--gpus {gpus:g} is invalid: give a fraction of one GPU or whole ones")
        self.ray: Any = ray
        self.address = address
        self.limit = workers
        self.cpus, self.gpus = cpus, gpus
        self.watcher = watcher or Watcher()
        self.connected = False
        self.actor = actor
        self.arguments: Sequence[Any] = ()
        self.running: dict[Any, Any] = {}
        """Tasks by Ray's references to their records."""
        self.name = f"{os.getpid()}-{time.time_ns()}"

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
        self.remote = self.ray.remote(run_in_worker).options(
            name=self.actor.__name__,
            num_cpus=self.cpus,
            num_gpus=self.gpus,
            max_retries=RETRIES,
        )
        return self

    def __exit__(self, *_: object) -> None:
        for reference in self.running:
            self.ray.cancel(reference, force=True)
        if self.connected:
            self.ray.shutdown()

    @property
    def size(self) -> int:
        """How many tasks run at the same time, at most."""
        return max(1, self.room())

    @property
    def slots(self) -> int:
        """How many more tasks can be submitted now."""
        return self.size - len(self.running)

    def room(self) -> int:
        """For how many tasks the living nodes have resources; Ray decides where they run."""
        needs = {"CPU": self.cpus, "GPU": self.gpus}
        total = [node["Resources"] for node in self.ray.nodes() if node["Alive"]]
        found = sum(places_on(node, {k: n for k, n in needs.items() if n}) for node in total)
        return found if self.limit is None else min(found, self.limit)

    def submit(self, task: Any) -> None:
        """Put a task into Ray's queue."""
        threads = max(1, int(self.cpus))
        arguments = (self.name, self.actor, threads, list(self.arguments), task)
        self.running[self.remote.remote(*arguments)] = task

    def wait(self, timeout: float) -> list[TaskResult]:
        """Finished tasks; empty after ``timeout`` seconds."""
        if not self.running:
            time.sleep(timeout)
            return []
        ready, _ = self.ray.wait(list(self.running), num_returns=1, timeout=timeout)
        return [self._outcome(reference) for reference in ready]

    def _outcome(self, reference: Any) -> TaskResult:
        task = self.running.pop(reference)
        try:
            return TaskResult(task, self.ray.get(reference))
        except self.ray.exceptions.RayError as error:
            name = type(error).__name__
            return TaskResult(
                task, None, f"{RETRIES + 1} workers died of it, the last one by {name}"
            )


def places_on(node: Mapping[str, float], needs: Mapping[str, float]) -> int:
    """How often a node has the resources of a task.

    >>> places_on({"CPU": 8, "GPU": 1}, {"CPU": 0.1, "GPU": 0.1})
    10
    """
    needs = needs or {"CPU": 1.0}
    return min(int(node.get(kind, 0) / amount + 1e-6) for kind, amount in needs.items())
