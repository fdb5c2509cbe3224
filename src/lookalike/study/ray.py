"""Tasks on a Ray cluster: long-lived actors, each with the CPUs and GPUs of one training."""

import logging
import time
from dataclasses import asdict, dataclass
from typing import Any, Self

from lookalike.errors import BadInput
from lookalike.study.tasks import Outcome, Task
from lookalike.training.watcher import Watcher

__all__ = ["RayExecutor"]


class BenchActor:
    """A bench on some node of the cluster."""

    def __init__(self, threads: int) -> None:
        import torch

        from lookalike.study.bench import Bench

        torch.set_num_threads(threads)
        self.bench = Bench()

    def run(self, task: dict[str, Any]) -> dict[str, Any]:
        """Do one task."""
        return self.bench.run(Task(**task))


@dataclass(eq=False)
class Seat:
    """One actor, and what it is at."""

    actor: Any
    task: Task | None = None
    answer: Any = None


class RayExecutor:
    """As many actors as the cluster has room for, or ``workers``; those of dead nodes are left."""

    def __init__(
        self,
        address: str | None = None,
        *,
        workers: int | None = None,
        cpus: float = 1,
        gpus: float = 0,
        watcher: Watcher | None = None,
    ) -> None:
        try:
            import ray
        except ImportError:
            raise BadInput(
                "--executor ray needs the package ray: pip install 'lookalike[cluster]'"
            ) from None
        self.ray: Any = ray
        self.address = address
        self.workers = workers
        self.cpus, self.gpus = cpus, gpus
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
            raise BadInput(f"the Ray cluster has no room for {self.cpus} CPUs, {self.gpus} GPUs")
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
        places = sum(
            int(min(node.get(kind, 0) // each for kind, each in self.needs().items()))
            for node in total
        )
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

    def _start(self) -> Seat:
        remote = self.ray.remote(num_cpus=self.cpus, num_gpus=self.gpus)(BenchActor)
        seat = Seat(remote.remote(max(1, int(self.cpus))))
        self.seats.append(seat)
        return seat
