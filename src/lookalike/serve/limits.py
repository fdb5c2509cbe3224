"""Limits of a request and of all requests together, and how a request is refused."""

import asyncio
import os
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

    Args:
        upload_bytes: The largest form with pictures.
        json_bytes: The largest other body.
        pixels: The largest picture.
        request_pixels: The pictures of a request together.
        working_pixels: The pictures of all requests that are being answered: a file of 6 KB may
            have fifty million pixels, whose decoding takes a second and 200 MB.
        side_ratio: How much longer one side may be than the other: a picture of 1 x 50,000,000
            pixels is small until its short side is resized for the network.
        scans: The most scans of a JPEG: a progressive one of a few megabytes can have a hundred
            thousand scans over its pixels.
        request_seconds: How long a request may take.
        silent_seconds: How long a connection may be open without a complete request head.
        drain_seconds: How long requests may still run after the server was asked to stop.
        reload_seconds: How often the server looks whether the index has changed.
        waiting: How many searches may be in the server at a time.
        filters: How many lists of filtered pictures may wait, of which one is made at a time: a
            filter looks at every picture.
        requests: How many requests may be in the server at a time.
        connections: How many connections may be open.
        head_bytes: The largest head of a request.
        batch_pictures: How many pictures the network sees at a time; 1: each alone.
        torch_threads: Of each batch. Each core computes a batch; threads that share one wait for
            each other after each of hundreds of small operations.
        batch_vectors: How many vectors are searched at a time.
        batch_seconds: How long a picture waits for others that are being decoded.
        neighbours: The largest k.
        pictures: How many pictures a search may upload.
        examples: How many ids, vectors and labels a search may have of each.
        listed: The largest page of ``/api/items``.
        filter_length: The longest filter, in characters.
        thumbnail_bytes: The memory for thumbnails.
        map_points: How many pictures the map shows.
    """

    upload_bytes: int = 20 * 2**20
    json_bytes: int = 4 * 2**20
    pixels: int = 50_000_000
    request_pixels: int = 100_000_000
    working_pixels: int = 200_000_000
    side_ratio: float = 20.0
    scans: int = 100
    request_seconds: float = 30.0
    silent_seconds: float = 15.0
    drain_seconds: float = 10.0
    reload_seconds: float = 1.0
    waiting: int = 96
    filters: int = 16
    requests: int = 512
    connections: int = 4_096
    head_bytes: int = 32 * 2**10
    batch_pictures: int = 8
    torch_threads: int = 1
    batch_vectors: int = 64
    batch_seconds: float = 0.004
    neighbours: int = 200
    pictures: int = 16
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


class Workers:
    """A pool of threads with a queue of bounded length; what comes when it is full is refused.

    Work whose client has left, or whose time is up, is dropped if it has not begun; if it has, it
    keeps its thread (anyio's limiter would start the next task beside it).

    Args:
        threads: How many there are.
        waiting: How many tasks may wait for one.
        name: Of the threads, and of the queue in the metrics.
    """

    def __init__(self, threads: int, waiting: int, name: str) -> None:
        self.name = name
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._threads, self._most = threads, threads + waiting
        self._unfinished: set[Future[Any]] = set()

    def __len__(self) -> int:
        """How much work is waiting."""
        return max(0, len(self._unfinished) - self._threads)

    async def run(self, work: Callable[..., T], *arguments: Any, **options: Any) -> T:
        """Compute something in a thread.

        Args:
            work: What to call.
            arguments: Of the call.
            options: Of the call.

        Returns:
            The result of ``work``.

        Raises:
            Refusal: Too much is waiting (429).
        """
        if len(self._unfinished) >= self._most:
            raise overloaded()
        future = self._pool.submit(work, *arguments, **options)
        self._unfinished.add(future)  # a set needs no lock, for which the event loop would wait
        future.add_done_callback(self._unfinished.discard)
        return await asyncio.wrap_future(future)

    def close(self) -> None:
        """Drop what is waiting, and let the threads end after what they run."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def threaded(self, work: Callable[P, T]) -> Callable[P, Coroutine[Any, Any, T]]:
        """``work`` as a coroutine function that computes its result in a thread."""

        @wraps(work)
        async def run(*arguments: P.args, **options: P.kwargs) -> T:
            return await self.run(work, *arguments, **options)

        return run
