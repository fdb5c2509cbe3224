"""Limits of a request and of all requests together, and how a request is refused."""

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from fastapi import HTTPException

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True)
class Limits:
    """What one request, and all of them together, may use.

    ``side_ratio``: a picture of 1 x 50,000,000 pixels is small until its short side is resized for
    the network. ``scans``: a progressive JPEG of a few megabytes can have a hundred thousand scans
    over its pixels. ``waiting``: how many tasks may wait for a free core. ``silent_seconds``: how
    long a connection may be open without a complete request head.
    """

    upload_bytes: int = 20 * 2**20
    pixels: int = 50_000_000
    side_ratio: float = 20.0
    scans: int = 100
    request_seconds: float = 30.0
    silent_seconds: float = 15.0
    waiting: int = 64
    connections: int = 256
    neighbours: int = 200
    listed: int = 200
    thumbnail_bytes: int = 64 * 2**20
    map_points: int = 4_000


class Refusal(HTTPException):
    """A request that cannot be answered, with the status and one sentence that says why."""


def cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Workers:
    """A pool of threads with a queue of bounded length; what comes when it is full is refused.

    Work whose visitor has gone, or whose time is up, is dropped if it has not begun; if it has, it
    keeps its thread (anyio's limiter would start the next task beside it). The workers of a study
    are another thing: processes that run for hours, receive JSON and may be killed.
    """

    def __init__(self, threads: int, waiting: int, name: str) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._places = threading.BoundedSemaphore(threads + waiting)

    def threaded(self, work: Callable[P, T]) -> Callable[P, Coroutine[Any, Any, T]]:
        """``work`` as a coroutine function that computes its result in a thread."""

        @wraps(work)
        async def run(*arguments: P.args, **options: P.kwargs) -> T:
            if not self._places.acquire(blocking=False):
                full = "Too many pictures are waiting; try again soon."
                raise Refusal(429, full, {"Retry-After": "2"})
            future = self._pool.submit(work, *arguments, **options)
            future.add_done_callback(lambda _: self._places.release())
            return await asyncio.wrap_future(future)

        return run
