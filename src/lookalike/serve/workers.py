"""Work that computes, away from the event loop: as many at a time as there are cores."""

import asyncio
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from lookalike.serve.limits import Refusal

__all__ = ["Workers", "cores"]

T = TypeVar("T")


def cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Workers:
    """A pool of threads with a waiting room of bounded size; who finds it full is told so.

    Work whose visitor has gone, or whose time is up, is dropped if it has not begun.
    """

    def __init__(self, threads: int, waiting: int, name: str) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._most = threads + waiting
        self._unfinished = 0
        self._lock = threading.Lock()

    async def run(self, work: Callable[..., T], *arguments: Any) -> T:
        """The result of ``work(*arguments)``, computed in a thread."""
        with self._lock:
            if self._unfinished >= self._most:
                raise Refusal(
                    429, "Too many pictures are waiting; try again soon.", {"Retry-After": "2"}
                )
            self._unfinished += 1
        future = self._pool.submit(work, *arguments)
        future.add_done_callback(self._finished)
        return await asyncio.wrap_future(future)

    def _finished(self, _: "Future[Any]") -> None:
        with self._lock:
            self._unfinished -= 1

    def close(self) -> None:
        """Take no more work and drop what has not begun."""
        self._pool.shutdown(wait=False, cancel_futures=True)
