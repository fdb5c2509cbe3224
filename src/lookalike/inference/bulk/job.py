"""A bulk job: how to embed, which rows the network sees together, and whose share they are."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from lookalike.errors import BadInput
from lookalike.inference.bulk.device import Device, Precision
from lookalike.inference.bulk.pipeline import BATCH, Window, embed_windows
from lookalike.inference.bulk.source import Source
from lookalike.inference.embedder import Embedder

__all__ = ["PER_SHARD", "Executor", "Options", "Share", "embed_here", "windows_of"]

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
