"""Work on images by as many threads as there are cores; decoders and encoders release the GIL."""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

__all__ = ["available_cores", "in_threads"]

Item = TypeVar("Item")
Made = TypeVar("Made")

_WAITING_PER_THREAD = 16


def available_cores() -> int:
    """The cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def in_threads(make: Callable[[Item], Made], items: Iterable[Item]) -> Iterator[Made]:
    """What ``make`` returns for each item, in order; only some results wait at a time.

    >>> list(in_threads(str, range(3)))
    ['0', '1', '2']
    """
    threads = available_cores()
    waiting: deque[Future[Made]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        try:
            for item in items:
                waiting.append(pool.submit(make, item))
                if len(waiting) > threads * _WAITING_PER_THREAD:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:  # after an error nobody wants the rest
            for future in waiting:
                future.cancel()
