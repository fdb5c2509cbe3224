"""Pictures are decoded and resized by threads while the device computes; little waits in memory."""

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, tee

import numpy as np
from PIL import Image
from torch import Tensor

from lookalike.data.parallel import ahead, available_cores, in_threads
from lookalike.inference.bulk.device import Device
from lookalike.inference.encoder import Vectors
from lookalike.inference.pictures import Unreadable

__all__ = ["BATCH", "Window", "embed_windows"]

BATCH = 64
"""Pictures that the network sees at a time."""
_BATCHES_AHEAD = 2


@dataclass(frozen=True)
class Window:
    """Rows that were embedded together.

    Attributes:
        rows: All of them.
        kept: Those that could be read.
        vectors: Their vectors, float32 [kept, dim].
        skipped: The others, each with the reason.
    """

    rows: Sequence[int]
    kept: list[int]
    vectors: Vectors
    skipped: list[tuple[int, str]]


def embed_windows(
    device: Device,
    read: Callable[[int], Image.Image],
    windows: Iterable[Sequence[int]],
    *,
    threads: int | None = None,
) -> Iterator[Window]:
    """Embed the pictures of some rows, window by window.

    Three stages work at the same time: threads read, decode and resize pictures, one thread makes
    batches of them, and the caller's thread computes. What the network sees together depends on the
    windows only, so that the vectors of a window do not depend on what was embedded before.

    Args:
        device: Computes.
        read: From a row to its picture; called by several threads.
        windows: Rows that the network sees together.
        threads: How many threads decode; None: as many as there are cores.

    Yields:
        The windows, in order.
    """
    encoder = device.encoder
    threads = threads or available_cores()

    def prepare(row: int) -> Tensor | str:
        try:
            return encoder.prepare(read(row))
        except Unreadable as error:
            return error.reason

    def batches() -> Generator[tuple[Window, Tensor | None], None, None]:
        flat, whole = tee(windows)
        rows = (row for window in flat for row in window)
        prepared = in_threads(
            prepare, rows, threads=threads, waiting_results=max(16 * threads, 2 * BATCH)
        )
        empty = np.empty((0, encoder.dim), np.float32)
        for window in whole:
            read_ones = list(zip(window, islice(prepared, len(window)), strict=True))
            kept = [row for row, pixels in read_ones if isinstance(pixels, Tensor)]
            skipped = [(row, reason) for row, reason in read_ones if isinstance(reason, str)]
            pixels = [one for _, one in read_ones if isinstance(one, Tensor)]
            batch = device.assemble(pixels) if pixels else None
            yield Window(window, kept, empty, skipped), batch

    for window, batch in ahead(batches(), _BATCHES_AHEAD):
        vectors = window.vectors if batch is None else device.embed(batch)
        yield Window(window.rows, window.kept, vectors, window.skipped)
