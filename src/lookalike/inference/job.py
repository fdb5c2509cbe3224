"""Embedding very many pictures: on which device, which rows together, and whose share they are.

Pictures are decoded and resized by threads while the device computes; little waits in memory.
"""

import copy
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from itertools import islice, tee
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from lookalike.data.parallel import ahead, available_cores, in_threads
from lookalike.errors import BadInput
from lookalike.inference.embedder import Embedder
from lookalike.inference.encoder import Encoder, Vectors
from lookalike.inference.pictures import Unreadable
from lookalike.inference.source import Source
from lookalike.ops.device import keep_freed_memory

__all__ = ["Device", "Executor", "Options", "Share", "Window", "embed_here", "windows_of"]

Precision = Literal["32-true", "bf16-mixed", "16-mixed"]
_HALF = {"bf16-mixed": torch.bfloat16, "16-mixed": torch.float16}


class Device:
    """Turns prepared pictures into vectors on a device, in the precisions of ``train.precision``.

    Args:
        encoder: The model; on another device than the CPU a copy of it computes.
        device: ``cpu``, ``cuda``, ``mps``, one of several as ``cuda:1``, or ``auto``: the best that
            there is.
        precision: ``32-true``; ``bf16-mixed`` or ``16-mixed``: autocast.

    Raises:
        BadInput: There is no such device, or it does not have the precision.
    """

    def __init__(
        self, encoder: Encoder, device: str = "auto", precision: Precision = "32-true"
    ) -> None:
        on_cpu = not isinstance(encoder, Embedder)
        self.device = torch.device("cpu") if on_cpu and device == "auto" else device_named(device)
        self.precision: Precision = precision
        if precision not in ("32-true", *_HALF):
            raise BadInput(f"--precision {precision} is invalid: give 32-true, {', '.join(_HALF)}")
        if precision == "16-mixed" and self.device.type == "cpu":
            raise BadInput("--precision 16-mixed needs a GPU; on a CPU use bf16-mixed")
        if self.device.type == "cpu":
            keep_freed_memory()
        self.encoder = encoder
        if isinstance(encoder, Embedder) and self.device.type != "cpu":
            self.encoder = there = copy.copy(encoder)
            there.model = copy.deepcopy(encoder.model).to(self.device)
        elif self.device.type != "cpu":
            raise BadInput("a model of ONNX computes on the CPU only")

    def assemble(self, pixels: Sequence[Tensor]) -> Tensor:
        """A batch of prepared pictures; for another device than the CPU its bytes."""
        if self.device.type == "cpu":
            return self.encoder.batch(pixels)
        batch = self.encoder.preset.centre(pixels)
        return batch.pin_memory() if self.device.type == "cuda" else batch

    def embed(self, batch: Tensor) -> Vectors:
        """The unit vectors of a batch."""
        if self.device.type != "cpu":
            moved = batch.to(self.device, non_blocking=True)
            batch = self.encoder.normalisation(moved, torch.channels_last)
        with self._autocast():
            return self.encoder.embed_batch(batch)

    def _autocast(self) -> AbstractContextManager[Any]:
        if self.precision == "32-true":
            return nullcontext()
        return torch.autocast(self.device.type, _HALF[self.precision])


def device_named(name: str) -> torch.device:
    """The device of a name, as ``train.device`` has it."""
    if name == "auto":
        if torch.cuda.is_available():
            return torch.device("cuda")
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
    try:
        device = torch.device("cuda" if name == "gpu" else name)
        if device.type not in ("cpu", "cuda", "mps"):
            raise RuntimeError("give auto, cpu, cuda or mps")
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).partition("\n")[0]
        raise BadInput(f"--device {name} cannot be used: {reason}") from error
    return device


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


PER_SHARD = 4096
"""Rows of a shard, where nothing else is asked for."""

Rows: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True)
class Options:
    """How to embed.

    Attributes:
        device: Computes; as ``train.device``. It may differ between machines.
        precision: As ``train.precision``.
        batch: Pictures that the network sees at a time.
        per_shard: Rows of the source that one of several machines or workers embeds at a time.
        threads: Threads that decode; None: as many as there are cores.
    """

    device: str = "auto"
    precision: Precision = "32-true"
    batch: int = BATCH
    per_shard: int = PER_SHARD
    threads: int | None = None

    def __post_init__(self) -> None:
        for name in ("batch", "per_shard"):
            if getattr(self, name) < 1:
                raise BadInput(f"--{name.replace('_', '-')} must be at least 1")


@dataclass(frozen=True)
class Share:
    """One of several machines that share the shards: the ``part``-th of ``whole``, from 1."""

    part: int = 1
    whole: int = 1

    @classmethod
    def parse(cls, text: str) -> "Share":
        """The share that ``i/n`` names.

        >>> Share.parse("2/3")
        Share(part=2, whole=3)
        """
        part, _, whole = text.partition("/")
        if not (part.isdecimal() and whole.isdecimal() and 1 <= int(part) <= int(whole)):
            raise BadInput(f"--shard {text} is invalid: give 1/3, 2/3 or 3/3 to three machines")
        return cls(int(part), int(whole))

    def of(self, rows: Rows, per_shard: int) -> Rows:
        """The rows that are in shards of this machine."""
        mine: Rows = rows[rows // per_shard % self.whole == self.part - 1]
        return mine


Executor: TypeAlias = Callable[
    [Embedder, Source, Options, Sequence[Sequence[Rows]]], Iterator[Window]
]
"""Embeds the windows of some shards, in any order."""


def windows_of(rows: Rows, options: Options) -> list[list[Rows]]:
    """Rows that the network sees together, for each shard.

    What is together depends on the place of the rows in the source only: after an interruption the
    rows that are left are computed in the same company, and get the same vectors, as without one.

    >>> windows = windows_of(np.array([0, 1, 2, 5, 6]), Options(batch=2, per_shard=4))
    >>> [[window.tolist() for window in shard] for shard in windows]
    [[[0, 1], [2]], [[5], [6]]]
    """
    shards = _split(rows, rows // options.per_shard)
    return [_split(shard, shard % options.per_shard // options.batch) for shard in shards]


def _split(rows: Rows, keys: Rows) -> list[Rows]:
    """The rows of each key; those of one key lie together."""
    return np.split(rows, np.flatnonzero(np.diff(keys)) + 1) if len(rows) else []


def embed_here(
    embedder: Embedder, source: Source, options: Options, shards: Sequence[Sequence[Rows]]
) -> Iterator[Window]:
    """Embed in this process, without a pause between windows."""
    device = Device(embedder, options.device, options.precision)
    windows = (window.tolist() for shard in shards for window in shard)
    return embed_windows(device, source.read, windows, threads=options.threads)
