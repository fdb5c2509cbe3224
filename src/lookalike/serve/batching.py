"""Micro-batching: what is asked at the same time is computed together."""

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from lookalike.serve.limits import overloaded

T = TypeVar("T")
R = TypeVar("R")


@dataclass
class Task(Generic[T, R]):
    """One thing to compute, and who waits for it."""

    item: T
    key: Hashable
    future: "Future[R]" = field(default_factory=Future)


class Batcher(Generic[T, R]):
    """Threads that take what is waiting, as one batch, and compute it by one call.

    A batch starts as soon as a thread is free and nobody else is known to be on the way (see
    :meth:`announced`), so that a lone request does not wait. Otherwise it starts when all of those
    have come, when it is full, or after ``seconds``. While a batch is computed the next one gathers
    by itself. A task whose waiter has gone is dropped before it is computed.

    Args:
        work: From items to their results, in order. Where it fails for several items, it is called
            for each alone, so that one bad item does not fail the others.
        name: Of the threads.
        most: How many items a batch may have.
        waiting: How many items may wait; what comes then is refused.
        threads: How many batches are computed at a time.
        seconds: The longest time to wait for others.
        key: Items of one batch have the same key.
        observe: Is told the size of each batch, and the seconds that it took.
    """

    def __init__(
        self,
        work: Callable[[list[T]], Sequence[R]],
        name: str,
        *,
        most: int,
        waiting: int,
        threads: int = 1,
        seconds: float = 0.0,
        key: Callable[[T], Hashable] = lambda _: None,
        observe: Callable[[int, float], None] = lambda _size, _seconds: None,
    ) -> None:
        self.name = name
        self._work, self._key, self._observe = work, key, observe
        self._most, self._waiting, self._seconds = most, waiting, seconds
        self._queue: deque[Task[T, R]] = deque()
        self._coming = 0
        self._closed = False
        self._changed = threading.Condition()
        self._threads = [
            threading.Thread(target=self._loop, name=f"{name}-{number}", daemon=True)
            for number in range(threads)
        ]
        for thread in self._threads:
            thread.start()

    def __len__(self) -> int:
        """How many items are waiting."""
        return len(self._queue)

    @contextmanager
    def announced(self) -> Iterator[None]:
        """Let batches wait, shortly, for an item that will be submitted within the block."""
        with self._changed:
            self._coming += 1
        try:
            yield
        finally:
            with self._changed:
                self._coming -= 1
                self._changed.notify_all()

    async def submit(self, item: T) -> R:
        """The result of ``item``; a refusal (429) where too much is waiting."""
        return await asyncio.wrap_future(self.put(item))

    def put(self, item: T) -> "Future[R]":
        """The future result of ``item``."""
        task: Task[T, R] = Task(item, self._key(item))
        with self._changed:
            if len(self._queue) >= self._waiting:
                self._drop_cancelled()
            if self._closed or len(self._queue) >= self._waiting:
                raise overloaded()
            self._queue.append(task)
            self._changed.notify_all()
        return task.future

    def close(self) -> None:
        """End the threads when what is waiting has been computed."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()

    def _loop(self) -> None:
        while True:
            with self._changed:
                while not self._queue and not self._closed:
                    self._changed.wait()
                if not self._queue:
                    return
                self._gather()
                tasks = self._take()
            wanted = [task for task in tasks if task.future.set_running_or_notify_cancel()]
            if wanted:
                self._compute(wanted)
            del tasks, wanted  # nothing of a request is kept while waiting for the next one

    def _gather(self) -> None:
        """Wait for those on the way."""
        until = time.monotonic() + self._seconds
        while self._coming > 0 and 0 < len(self._queue) < self._most and not self._closed:
            left = until - time.monotonic()
            if left <= 0 or not self._changed.wait(left):
                return

    def _drop_cancelled(self) -> None:
        """Forget the tasks whose waiters have gone; they must not fill the queue."""
        waiting = [task for task in self._queue if not task.future.cancelled()]
        self._queue.clear()
        self._queue.extend(waiting)

    def _take(self) -> list[Task[T, R]]:
        """The first task, and others of its key."""
        if not self._queue:
            return []
        key = self._queue[0].key
        chosen: list[Task[T, R]] = []
        others: deque[Task[T, R]] = deque()
        while self._queue and len(chosen) < self._most:
            task = self._queue.popleft()
            if task.future.cancelled():
                continue
            (chosen if task.key == key else others).append(task)
        self._queue.extendleft(reversed(others))
        return chosen

    def _compute(self, tasks: list[Task[T, R]]) -> None:
        start = time.perf_counter()
        try:
            results = self._work([task.item for task in tasks])
            assert len(results) == len(tasks)
        except Exception as error:
            if len(tasks) == 1:
                tasks[0].future.set_exception(error)
                return
            for task in tasks:
                self._compute([task])
            return
        except BaseException as error:
            for task in tasks:
                task.future.set_exception(error)
            raise
        for task, result in zip(tasks, results, strict=True):
            task.future.set_result(result)
        self._observe(len(tasks), time.perf_counter() - start)
