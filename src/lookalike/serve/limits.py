"""Limits of a request and of all requests together, and how a request is refused."""

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
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
    the network. ``json_bytes``: a body that is not a form is parsed in one piece, and nothing else is
    answered meanwhile (20 MB of numbers: a second). ``scans``: a progressive JPEG of a few megabytes can have a hundred thousand scans
    over its pixels. ``waiting``: how many searches may be in the server at a time.
    ``silent_seconds``: how long a connection may be open without a complete request head.
    ``batch_pictures``: how many pictures the network sees at a time; 1: each alone. Each core
    computes a batch, with ``torch_threads`` threads of torch: with more than one, they wait for
    each other after each of hundreds of small operations.
    ``batch_seconds``: how long a picture waits for others that are being decoded.
    ``examples``: how many pictures, ids, vectors and labels one query may have of each.
    """

    upload_bytes: int = 20 * 2**20
    json_bytes: int = 4 * 2**20
    pixels: int = 50_000_000
    side_ratio: float = 20.0
    scans: int = 100
    request_seconds: float = 30.0
    silent_seconds: float = 15.0
    drain_seconds: float = 10.0
    reload_seconds: float = 1.0
    waiting: int = 96
    requests: int = 512
    connections: int = 4_096
    head_bytes: int = 32 * 2**10
    batch_pictures: int = 8
    torch_threads: int = 1
    batch_vectors: int = 64
    batch_seconds: float = 0.004
    neighbours: int = 200
    examples: int = 64
    listed: int = 200
    filter_length: int = 2_000
    thumbnail_bytes: int = 64 * 2**20
    map_points: int = 4_000


class Refusal(HTTPException):
    """A request that cannot be answered, with the status and one sentence that says why."""


def overloaded() -> Refusal:
    """The refusal of what comes when the server has enough to do."""
    return Refusal(429, "Too many searches are waiting; try again soon.", {"Retry-After": "1"})


def cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Room:
    """A place for so many requests at a time; what comes when it is full is refused."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.held = 0

    @contextmanager
    def place(self) -> Iterator[None]:
        """Hold a place; used on the event loop only, so no lock is needed."""
        if self.held >= self.most:
            raise overloaded()
        self.held += 1
        try:
            yield
        finally:
            self.held -= 1


class Workers:
    """A pool of threads with a queue of bounded length; what comes when it is full is refused.

    Work whose visitor has gone, or whose time is up, is dropped if it has not begun; if it has, it
    keeps its thread (anyio's limiter would start the next task beside it). The workers of a study
    are another thing: processes that run for hours, receive JSON and may be killed.
    """

    def __init__(self, threads: int, waiting: int, name: str) -> None:
        self.name = name
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._threads, self._most = threads, threads + waiting
        self._unfinished = 0
        self._lock = threading.Lock()

    def __len__(self) -> int:
        """How much work is waiting."""
        return max(0, self._unfinished - self._threads)

    async def run(self, work: Callable[..., T], *arguments: Any, **options: Any) -> T:
        """The result of ``work``, computed in a thread."""
        with self._lock:
            if self._unfinished >= self._most:
                raise overloaded()
            future = self._pool.submit(work, *arguments, **options)
            self._unfinished += 1
        future.add_done_callback(self._finished)
        return await asyncio.wrap_future(future)

    def _finished(self, _: "Future[Any]") -> None:
        with self._lock:
            self._unfinished -= 1

    def threaded(self, work: Callable[P, T]) -> Callable[P, Coroutine[Any, Any, T]]:
        """``work`` as a coroutine function that computes its result in a thread."""

        @wraps(work)
        async def run(*arguments: P.args, **options: P.kwargs) -> T:
            return await self.run(work, *arguments, **options)

        return run
