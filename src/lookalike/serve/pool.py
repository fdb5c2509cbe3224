"""Threads that compute what waits, alone or in batches, and how much may be in work at a time."""

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine, Hashable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial, wraps
from typing import Any, ParamSpec, TypeVar

from lookalike.serve.limits import overloaded
from lookalike.serve.monitoring import BATCH_SECONDS, BATCHES

P = ParamSpec("P")
T = TypeVar("T")
R = TypeVar("R")
CLOSING_SECONDS = 5.0
"""How long what runs may still take when a pool is closed: a picture may be on a slow network."""


class Admission:
    """A limit on what is in work at a time, such as requests or pixels; more is refused.

    Args:
        most: The limit.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.held = 0

    @contextmanager
    def slot(self, amount: int = 1) -> Iterator[None]:
        """Count ``amount`` while it is in work; a refusal (429) beyond the limit.

        Used on the event loop only, so no lock is needed.
        """
        if self.held + amount > self.most:
            raise overloaded()
        self.held += amount
        try:
            yield
        finally:
            self.held -= amount


@dataclass(eq=False)
class Task:
    """One item to compute, and who waits for it."""

    work: Callable[[list[Any]], Sequence[Any]]
    item: Any
    key: Hashable
    future: "Future[Any]" = field(default_factory=Future)


class Pool:
    """Threads that take the task that waits longest, and with it those that can share its call.

    A lone task starts as soon as a thread is free; while it is computed, the next batch gathers by
    itself. A task whose client has left, or whose time is up, is dropped if it has not begun; if it
    has, it keeps its thread (anyio's limiter would start the next task beside it).

    Args:
        name: Of the threads, and of the queue in the metrics.
        threads: How many there are.
        waiting: How many tasks may wait for a thread; what comes then is refused.
        most: How many tasks a batch may have.
    """

    def __init__(
        self,
        name: str,
        threads: int,
        waiting: int,
        most: int = 1,
    ) -> None:
        self._name, self._waiting, self._most = name, waiting, most
        self._idle = threads
        self._queue: deque[Task] = deque()
        self._closed = False
        self._changed = threading.Condition()
        self._threads = [
            threading.Thread(target=self._loop, name=f"{name}-{number}", daemon=True)
            for number in range(threads)
        ]
        for thread in self._threads:
            thread.start()

    def __len__(self) -> int:
        """How many tasks are waiting."""
        return len(self._queue)

    async def run(self, work: Callable[P, T], *arguments: P.args, **options: P.kwargs) -> T:
        """The result of a call; a refusal (429) where too much is waiting."""
        call = partial(work, *arguments, **options)
        return await self.batched(lambda calls: [call() for call in calls], call, key=object())

    async def batched(
        self, work: Callable[[list[T]], Sequence[R]], item: T, key: Hashable = None
    ) -> R:
        """The result of ``item``; a refusal (429) where too much is waiting.

        Args:
            work: From items to their results, in order. Where it fails for several items, it is
                called for each alone, so that one bad item does not fail the others.
            item: What is computed, perhaps in a batch.
            key: Items of one batch have the same; whose work computes them does not matter.
        """
        task = Task(work, item, key)
        with self._changed:
            if len(self._queue) >= self._waiting + self._idle:
                self._queue = deque(task for task in self._queue if not task.future.cancelled())
            if self._closed or len(self._queue) >= self._waiting + self._idle:
                raise overloaded()
            self._queue.append(task)
            self._changed.notify()
        result: R = await asyncio.wrap_future(task.future)
        return result

    def threaded(self, work: Callable[P, T]) -> Callable[P, Coroutine[Any, Any, T]]:
        """``work`` as a coroutine function that computes its result in a thread."""

        @wraps(work)
        async def run(*arguments: P.args, **options: P.kwargs) -> T:
            return await self.run(work, *arguments, **options)

        return run

    def close(self) -> None:
        """Drop what is waiting, and let the threads end after what they run."""
        with self._changed:
            self._closed = True
            for task in self._queue:
                task.future.cancel()
            self._changed.notify_all()
        until = time.monotonic() + CLOSING_SECONDS
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))

    def _loop(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._queue or self._closed)
                if not self._queue:
                    return
                key = self._queue[0].key
                tasks = [task for task in self._queue if task.key == key][: self._most]
                for task in tasks:
                    self._queue.remove(task)
                self._idle -= 1
            self._compute([t for t in tasks if t.future.set_running_or_notify_cancel()])
            del task, tasks  # nothing of a request is kept while waiting for the next one
            with self._changed:
                self._idle += 1

    def _compute(self, tasks: list[Task]) -> None:
        start = time.perf_counter()
        try:
            results = tasks[0].work([task.item for task in tasks]) if tasks else []
        except BaseException as error:
            if len(tasks) == 1:
                tasks[0].future.set_exception(error)
            else:
                for task in tasks:
                    self._compute([task])
            return
        for task, result in zip(tasks, results, strict=True):
            task.future.set_result(result)
        if tasks and self._most > 1:
            BATCHES.labels(self._name).observe(len(tasks))
            BATCH_SECONDS.labels(self._name).observe(time.perf_counter() - start)
