"""Bounded queues: work in threads, work in batches, and how much may be in work at a time."""

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine, Hashable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial, wraps
from typing import Any, Generic, ParamSpec, TypeVar

from lookalike.serve.limits import overloaded

P = ParamSpec("P")
T = TypeVar("T")
R = TypeVar("R")
CLOSING_SECONDS = 5.0
"""How long what runs may still take when a queue is closed: a picture may be on a slow network."""


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
        waiting: How many items may wait for a thread; what comes then is refused.
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
        self._idle = threads
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
            if self._full:
                self._drop_cancelled()
            if self._closed or self._full:
                raise overloaded()
            self._queue.append(task)
            self._changed.notify_all()
        return task.future

    @property
    def _full(self) -> bool:
        return len(self._queue) >= self._waiting + self._idle

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
                while not self._queue and not self._closed:
                    self._changed.wait()
                if not self._queue:
                    return
                self._gather()
                tasks = self._take()
                self._idle -= 1
            active = [task for task in tasks if task.future.set_running_or_notify_cancel()]
            if active:
                self._compute(active)
            del tasks, active  # nothing of a request is kept while waiting for the next one
            with self._changed:
                self._idle += 1

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
        batch: list[Task[T, R]] = []
        others: deque[Task[T, R]] = deque()
        while self._queue and len(batch) < self._most:
            task = self._queue.popleft()
            if task.future.cancelled():
                continue
            (batch if task.key == key else others).append(task)
        self._queue.extendleft(reversed(others))
        return batch

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


class Workers(Batcher[Callable[[], Any], Any]):
    """Threads that call functions, one after another.

    Work whose client has left, or whose time is up, is dropped if it has not begun; if it has, it
    keeps its thread (anyio's limiter would start the next task beside it).

    Args:
        threads: How many there are.
        waiting: How many calls may wait for one.
        name: Of the threads, and of the queue in the metrics.
    """

    def __init__(self, threads: int, waiting: int, name: str) -> None:
        super().__init__(
            lambda calls: [call() for call in calls],
            name,
            most=1,
            waiting=waiting,
            threads=threads,
        )

    async def run(self, work: Callable[P, T], *arguments: P.args, **options: P.kwargs) -> T:
        """The result of a call; a refusal (429) where too much is waiting."""
        result: T = await self.submit(partial(work, *arguments, **options))
        return result

    def threaded(self, work: Callable[P, T]) -> Callable[P, Coroutine[Any, Any, T]]:
        """``work`` as a coroutine function that computes its result in a thread."""

        @wraps(work)
        async def run(*arguments: P.args, **options: P.kwargs) -> T:
            return await self.run(work, *arguments, **options)

        return run
