"""Feeding a network: threads read and augment images ahead of it and copy them to its device.

A batch is cut into parts that several threads make at a time, since the kernels that decode, crop
and resize release the GIL. It travels compactly (images as uint8) in pinned memory, on a stream of
its own. The values do not depend on the number of threads.
"""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import TypeVar

import torch
from torch import Tensor

from lookalike.data.parallel import available_cores
from lookalike.training.distributed.ranks import launched

__all__ = ["Feeding", "UnreadBatch", "feed"]

Item = TypeVar("Item")

SMALLEST_PART = 8
"""Images of a batch that one thread makes, at least."""
MOST_WORKERS = 16


@dataclass(frozen=True)
class Feeding:
    """How batches are made: ``train.workers`` threads, ``train.prefetch`` batches ahead."""

    workers: int | None = None
    ahead: int = 2

    def threads(self, device: torch.device) -> int:
        """The number of threads; 0: the thread that trains makes its batches itself.

        By default all cores that this process has, but none where the network runs on the CPU,
        since they would only take the cores from it.
        """
        if self.workers is not None:
            return self.workers
        if device.type == "cpu":
            return 0
        processes = int(os.environ["LOCAL_WORLD_SIZE"]) if launched() else 1
        return min(MOST_WORKERS, max(1, available_cores() // processes))


@dataclass(frozen=True)
class UnreadBatch:
    """A batch of ``size`` rows before it is read; ``read(start, stop)`` makes some of the rows."""

    size: int
    read: Callable[[int, int], Tensor]

    def parts(self, number: int) -> list[Callable[[], Tensor]]:
        """The batch in at most ``number`` parts of about the same size."""
        number = max(1, min(number, self.size // SMALLEST_PART))
        cuts = [self.size * i // number for i in range(number + 1)]
        return [partial(self.read, *ends) for ends in pairwise(cuts)]


def feed(
    items: Iterable[Item],
    unread: Callable[[Item], list[UnreadBatch]],
    device: torch.device,
    feeding: Feeding | None = None,
) -> Iterator[tuple[Item, list[Tensor]]]:
    """Each item with its batches, on ``device``.

    Args:
        items: What the batches are made of; they are drawn exactly ``feeding.ahead`` ahead.
        unread: The batches of an item; several threads may read at a time.
        device: Where the network is.
        feeding: The number of threads, and how far they are ahead.

    Yields:
        The items in order with their batches.
    """
    feeding = feeding or Feeding()
    threads = feeding.threads(device)
    with ExitStack() as stack:
        start = partial(_read_later, device)
        if threads:
            start = partial(_read_ahead, _Pool(stack, threads, device))
        waiting: deque[tuple[Item, list[Callable[[], Tensor]]]] = deque()

        def first() -> tuple[Item, list[Tensor]]:
            item, started = waiting.popleft()
            return item, [finish() for finish in started]

        for item in items:
            waiting.append((item, [start(batch) for batch in unread(item)]))
            if len(waiting) > feeding.ahead:
                yield first()
        while waiting:
            yield first()


def _read_later(device: torch.device, batch: UnreadBatch) -> Callable[[], Tensor]:
    return lambda: batch.read(0, batch.size).to(device)


def _read_ahead(pool: "_Pool", batch: UnreadBatch) -> Callable[[], Tensor]:
    return pool.start(batch).result


class _Pool:
    """Threads that make the parts of batches, and one that joins and copies them in order."""

    def __init__(self, stack: ExitStack, threads: int, device: torch.device) -> None:
        self.device = device
        self.threads = threads
        self.makers = ThreadPoolExecutor(threads, "feed", _use_one_core)
        self.joiner = ThreadPoolExecutor(1, "feed-join", _use_one_core)
        for executor in (self.makers, self.joiner):  # what was not begun is not wanted any more
            stack.callback(executor.shutdown, cancel_futures=True)
        self.copies: torch.cuda.Stream | None = None
        if device.type == "cuda":
            self.copies = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]

    def start(self, batch: UnreadBatch) -> "_Started":
        parts = [self.makers.submit(part) for part in batch.parts(self.threads)]
        return _Started(self.joiner.submit(self.join, parts), self.device)

    def join(self, parts: list[Future[Tensor]]) -> tuple[Tensor, torch.cuda.Event | None]:
        made = [part.result() for part in parts]
        if self.copies is None:
            whole = made[0] if len(made) == 1 else torch.cat(made)
            return whole.to(self.device), None
        pinned = torch.cat(made, out=_pinned_like(made))
        with torch.cuda.stream(self.copies):
            batch = pinned.to(self.device, non_blocking=True)
            return batch, self.copies.record_event()


@dataclass(frozen=True)
class _Started:
    """A batch that is being made."""

    future: Future[tuple[Tensor, torch.cuda.Event | None]]
    device: torch.device

    def result(self) -> Tensor:
        batch, copied = self.future.result()
        if copied is not None:
            stream = torch.cuda.current_stream(self.device)
            stream.wait_event(copied)
            batch.record_stream(stream)
        return batch


def _pinned_like(parts: list[Tensor]) -> Tensor:
    """Pinned memory for the parts joined, in their own memory format."""
    first = parts[0]
    shape = (sum(len(part) for part in parts), *first.shape[1:])
    last = first.dim() == 4 and first.is_contiguous(memory_format=torch.channels_last)
    memory_format = torch.channels_last if last else torch.contiguous_format
    return torch.empty(shape, dtype=first.dtype, memory_format=memory_format, pin_memory=True)


def _use_one_core() -> None:
    """Let the operations of this thread use one core: the other threads have the others."""
    torch.set_num_threads(1)
