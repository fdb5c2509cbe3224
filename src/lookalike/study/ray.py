"""Tasks on a Ray cluster: long-lived actors, each with the CPUs and GPUs of one training."""

import logging
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Self

from lookalike.errors import BadInput, LookalikeError
from lookalike.progress import Watcher
from lookalike.study.tasks import Outcome, Task

__all__ = ["START_SECONDS", "RayExecutor", "places_on"]

START_SECONDS = 300.0
"""How long an actor may take to start before the cluster is taken for full."""

UNITS = 10_000
"""Ray counts a resource in whole ten-thousandths."""


class BenchActor:
    """A bench on some node of the cluster."""

    def __init__(self, threads: int) -> None:
        import torch

        from lookalike.study.bench import Bench

        torch.set_num_threads(threads)
        self.bench = Bench()

    def ready(self) -> None:
        """Answer, once there is an actor to do so."""

    def run(self, task: dict[str, Any]) -> dict[str, Any]:
        """Do one task."""
        return self.bench.run(Task(**task))


@dataclass(eq=False)
class Seat:
    """One actor, and what it is at."""

    actor: Any
    ready: Any
    """Is there once the actor has started."""
    task: Task | None = None
    answer: Any = None
    asked: float = field(default_factory=time.monotonic)
    started: bool = False


def places_on(node: Mapping[str, float], needs: Mapping[str, float]) -> int:
    """For how many actors with ``needs`` a node has resources.

    A part of a GPU lies on one GPU, so that each device is counted alone: floor(1 / part) of each.

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


class RayExecutor:
    """As many actors as the cluster has room for, or ``workers``; those of dead nodes are left.

    An actor that has not started after ``start_seconds`` is given up, and its task goes to another.
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
            raise BadInput(f"--gpus {gpus:g} is invalid: give a part of one GPU or whole ones")
        self.ray: Any = ray
        self.address = address
        self.workers = workers
        self.cpus, self.gpus = cpus, gpus
        self.start_seconds = start_seconds
        self.watcher = watcher or Watcher()
        self.seats: list[Seat] = []
        self.connected = False

    def __enter__(self) -> Self:
        if not self.ray.is_initialized():
            try:
                self.ray.init(
                    address=self.address, log_to_driver=False, logging_level=logging.ERROR
                )
            except (ConnectionError, ValueError) as error:
                reason = " ".join(str(error).split())
                raise BadInput(f"no Ray cluster at '{self.address}': {reason}") from None
            self.connected = True
        if not self.room():
            self.__exit__()
            raise BadInput(
                f"the Ray cluster has no room for {self.cpus:g} CPUs, {self.gpus:g} GPUs"
            )
        return self

    def __exit__(self, *_: object) -> None:
        for seat in self.seats:
            self.ray.kill(seat.actor)
        if self.connected:
            self.ray.shutdown()

    @property
    def size(self) -> int:
        """How many tasks run at the same time."""
        return max(1, self.room())

    @property
    def slots(self) -> int:
        """How many more tasks can be given now."""
        return self.room() - sum(seat.task is not None for seat in self.seats)

    def room(self) -> int:
        """For how many actors the nodes that are alive have resources."""
        total = [node["Resources"] for node in self.ray.nodes() if node["Alive"]]
        places = sum(places_on(node, self.needs()) for node in total)
        return places if self.workers is None else min(places, self.workers)

    def needs(self) -> dict[str, float]:
        """What one actor takes."""
        wanted = {"CPU": self.cpus, "GPU": self.gpus}
        return {kind: amount for kind, amount in wanted.items() if amount} or {"CPU": 1.0}

    def submit(self, task: Task) -> None:
        """Give a task to a free actor, starting one if need be."""
        seat = next((seat for seat in self.seats if seat.task is None), None) or self._start()
        seat.task = task
        seat.answer = seat.actor.run.remote(asdict(task))

    def wait(self, timeout: float) -> list[Outcome]:
        """What was done, or was left by actors that died; empty after ``timeout`` seconds."""
        waiting = {seat.answer: seat for seat in self.seats if seat.task is not None}
        if not waiting:
            time.sleep(timeout)
            return []
        overdue = self._overdue()
        if overdue:
            return overdue
        ready, _ = self.ray.wait(list(waiting), num_returns=1, timeout=timeout)
        outcomes = []
        for answer in ready:
            seat = waiting[answer]
            task, seat.task = seat.task, None
            assert task is not None
            try:
                outcomes.append(Outcome(task, self.ray.get(answer)))
            except self.ray.exceptions.RayError:  # the actor or its node is gone
                self.seats.remove(seat)
                outcomes.append(Outcome(task, None))
        return outcomes or self._without_room()

    def _without_room(self) -> list[Outcome]:
        """Give up an actor for which a dead node left no room: it would wait for ever."""
        if len(self.seats) <= self.room():
            return []
        seat = self.seats.pop()
        self.ray.kill(seat.actor)
        return [Outcome(seat.task, None)] if seat.task is not None else []

    def _overdue(self) -> list[Outcome]:
        """Give up actors that did not start in time: others have what they need."""
        waiting = {seat.ready: seat for seat in self.seats if not seat.started}
        if not waiting:
            return []
        ready, _ = self.ray.wait(list(waiting), num_returns=len(waiting), timeout=0)
        for answer in ready:
            waiting[answer].started = True
        latest = time.monotonic() - self.start_seconds
        late = [seat for seat in waiting.values() if not seat.started and seat.asked < latest]
        if not late:
            return []
        within = f"on the Ray cluster within {self.start_seconds:g} s"
        if len(late) == len(self.seats):
            raise LookalikeError(
                f"no worker started {within}: one needs {amounts(self.needs())}, "
                f"and {amounts(self.ray.available_resources())} are free"
            )
        for seat in late:
            self.seats.remove(seat)
            self.ray.kill(seat.actor)
        self.workers = len(self.seats)
        self.watcher.note(
            f"{len(late)} of {len(late) + self.workers} workers did not start {within}; "
            f"the study goes on with {self.workers}"
        )
        return [Outcome(seat.task, None) for seat in late if seat.task is not None]

    def _start(self) -> Seat:
        remote = self.ray.remote(num_cpus=self.cpus, num_gpus=self.gpus)(BenchActor)
        actor = remote.remote(max(1, int(self.cpus)))
        seat = Seat(actor, actor.ready.remote())
        self.seats.append(seat)
        return seat


def amounts(resources: Mapping[str, float]) -> str:
    """CPUs and GPUs, in words."""
    return ", ".join(f"{resources.get(kind, 0):g} {kind}s" for kind in ("CPU", "GPU"))
