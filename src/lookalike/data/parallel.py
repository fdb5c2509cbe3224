"""Work on images by as many threads as there are cores; decoders and encoders release the GIL."""

import os
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

__all__ = ["ahead", "available_cores", "in_threads"]

Item = TypeVar("Item")
Made = TypeVar("Made")

_WAITING_PER_THREAD = 16


def available_cores() -> int:
    """The cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def in_threads(
    make: Callable[[Item], Made],
    items: Iterable[Item],
    *,
    threads: int | None = None,
    waiting_results: int | None = None,
) -> Iterator[Made]:
    """What ``make`` returns for each item, in order; only some results wait at a time.

    Args:
        make: Called by several threads.
        items: Its arguments.
        threads: How many; None: as many as there are cores.
        waiting_results: How many results wait at most; None: some for each thread.

    Yields:
        The results.

    >>> list(in_threads(str, range(3)))
    ['0', '1', '2']
    """
    threads = threads or available_cores()
    most = waiting_results or threads * _WAITING_PER_THREAD
    waiting: deque[Future[Made]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        try:
            for item in items:
                waiting.append(pool.submit(make, item))
                if len(waiting) > most:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:  # after an error nobody wants the rest
            for future in waiting:
                future.cancel()


def ahead(items: Generator[Made, None, None], most: int) -> Iterator[Made]:
    """The items of a generator, which one other thread makes while the caller works.

    Args:
        items: The generator.
        most: How many items wait at most.

    Yields:
        The items, in order.

    >>> list(ahead((number for number in range(3)), 2))
    [0, 1, 2]
    """
    end = object()
    with ThreadPoolExecutor(1) as pool:
        waiting = deque(pool.submit(next, items, end) for _ in range(most))
        try:
            while (made := waiting.popleft().result()) is not end:
                waiting.append(pool.submit(next, items, end))
                yield made  # type: ignore[misc]
        finally:
            for future in waiting:
                future.cancel()
            pool.submit(items.close)  # in the thread that may still be working on the next item
