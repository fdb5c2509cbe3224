"""The bulk job: pictures in, shards of vectors out, resumed where it was interrupted."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

import numpy as np

from lookalike.data.cache import remove_abandoned
from lookalike.errors import BadInput
from lookalike.inference.bulk.device import Device, Precision
from lookalike.inference.bulk.listing import Skipped
from lookalike.inference.bulk.manifest import (
    MANIFEST,
    Dtype,
    Manifest,
    ShardFile,
    columns_of,
    stamp_of,
)
from lookalike.inference.bulk.pipeline import BATCH, embed_windows, windows_of
from lookalike.inference.bulk.shards import finished, skipped_of, write_shard
from lookalike.inference.bulk.source import Source, require_readable
from lookalike.inference.embedder import Embedder
from lookalike.inference.encoder import Vectors
from lookalike.progress import Watcher

__all__ = ["PER_SHARD", "Embedded", "Made", "Options", "Share", "embed", "embed_shards"]

PER_SHARD = 4096
"""Rows of a shard, where nothing else is asked for."""


@dataclass(frozen=True)
class Options:
    """What decides the vectors, besides the model and the pictures.

    Attributes:
        dtype: The type of the stored numbers.
        device: Computes; as ``train.device``. It may differ between machines.
        precision: As ``train.precision``.
        batch: Pictures that the network sees at a time.
        per_shard: Rows of the source in each shard.
        threads: Threads that decode; None: as many as there are cores.
    """

    dtype: Dtype = "float32"
    device: str = "auto"
    precision: Precision = "32-true"
    batch: int = BATCH
    per_shard: int = PER_SHARD
    threads: int | None = None

    def __post_init__(self) -> None:
        if self.dtype not in ("float32", "float16"):
            raise BadInput(f"--dtype {self.dtype} is invalid: give float32 or float16")
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

    def of(self, shards: int) -> range:
        """The shards of this machine."""
        return range(self.part - 1, shards, self.whole)


@dataclass(frozen=True)
class Made:
    """The vectors of one shard.

    Attributes:
        number: The shard.
        kept: The rows of the source that could be read.
        vectors: Their vectors.
        skipped: The other rows, each with the reason.
    """

    number: int
    kept: list[int]
    vectors: Vectors
    skipped: list[tuple[int, str]]


Executor: TypeAlias = Callable[
    [Embedder, Source, Options, Manifest, Sequence[int], Callable[[int], None]], Iterator[Made]
]
"""Makes shards, in any order; is given how to tell that so many rows more are done."""


@dataclass(frozen=True)
class Embedded:
    """Shards of vectors.

    Attributes:
        folder: Where they are.
        manifest: What they are.
        files: The shards that there are so far.
        made: How many of them were made by this call.
        skipped: The pictures that could not be used.
    """

    folder: Path
    manifest: Manifest
    files: list[ShardFile]
    made: int
    skipped: list[Skipped] = field(default_factory=list)

    @property
    def rows(self) -> int:
        """How many vectors there are so far."""
        return sum(file.rows for file in self.files)

    @property
    def complete(self) -> bool:
        """Whether no shard is missing."""
        return self.manifest.complete

    def __str__(self) -> str:
        vectors = f"{self.rows:,} vectors of {self.manifest.dim} numbers"
        missing = f" ({self.manifest.shards - len(self.files):,} shards are missing)"
        return f"{self.folder}: {vectors}{'' if self.complete else missing}"


def embed(
    embedder: Embedder,
    source: Source,
    folder: Path,
    options: Options | None = None,
    *,
    share: Share | None = None,
    executor: Executor | None = None,
    watcher: Watcher | None = None,
) -> Embedded:
    """Embed all pictures of a source into shards; finished shards are not made again.

    Which rows belong to which shard depends on the source only, and what the network sees together
    on the shard only: whatever kills the process, the same call continues, and the vectors are
    those of an undisturbed run. Several machines may share a folder (``share``); whoever finds that
    all shards are there completes ``embedding.json``.

    Args:
        embedder: The model.
        source: The pictures.
        folder: Where the shards, ``embedding.json`` and ``model/`` go.
        options: How to embed.
        share: The shards of this machine; None: all.
        executor: What makes shards; None: this process.
        watcher: Is told the progress.

    Returns:
        What there is now.

    Raises:
        BadInput: The folder was begun with another model, other pictures or other options; or no
            picture can be read.
    """
    options, watcher, share = options or Options(), watcher or Watcher(), share or Share()
    Device(embedder, options.device, options.precision)  # refuses it before anything is written
    begun = Manifest(
        model=embedder.fingerprint,
        network=embedder.blueprint.network,
        dim=embedder.dim,
        dtype=options.dtype,
        precision=options.precision,
        batch=options.batch,
        source=str(source.place),
        kind=source.kind,
        root=str(source.root),
        pictures=len(source),
        stamp=stamp_of(source),
        columns=columns_of(source),
        per_shard=options.per_shard,
    )
    if not (folder / MANIFEST).exists():
        embedder.blueprint.refuse_foreign_code()
        require_readable(source)
    manifest = begun.agree(folder)
    if not (folder / "model" / "model.json").exists():
        embedder.save(folder / "model")
    own = share.of(manifest.shards)
    missing = _missing(folder, manifest, own, watcher)
    total = sum(len(manifest.rows_of(number)) for number in own)
    done = total - sum(len(manifest.rows_of(number)) for number in missing)
    if done and missing:
        watcher.note(f"{done:,} of {total:,} pictures are embedded already")

    def advance(rows: int) -> None:
        nonlocal done
        done += rows
        watcher.stage("embedding", done, total)

    for made in (executor or embed_shards)(embedder, source, options, manifest, missing, advance):
        path = manifest.path_of(folder, made.number)
        remove_abandoned(path)
        skipped = [Skipped(source.path_of(row), reason) for row, reason in made.skipped]
        table = source.table.take(made.kept)
        write_shard(path, manifest, made.number, table, made.vectors, skipped)
    return _outcome(folder, manifest, source, len(missing))


def embed_shards(
    embedder: Embedder,
    source: Source,
    options: Options,
    manifest: Manifest,
    shards: Sequence[int],
    advance: Callable[[int], None],
) -> Iterator[Made]:
    """Make shards in this process, without a pause between them."""
    device = Device(embedder, options.device, options.precision)
    windows = (
        window
        for number in shards
        for window in windows_of(manifest.rows_of(number), options.batch)
    )
    made = embed_windows(device, source.read, windows, threads=options.threads)
    for number in shards:
        rows, kept, skipped = manifest.rows_of(number), list[int](), list[tuple[int, str]]()
        parts = [np.empty((0, embedder.dim), np.float32)]
        seen = 0
        while seen < len(rows):
            window = next(made)
            seen += len(window.rows)
            kept += window.kept
            skipped += window.skipped
            parts.append(window.vectors)
            advance(len(window.rows))
        yield Made(number, kept, np.concatenate(parts), skipped)


def _missing(folder: Path, manifest: Manifest, own: Sequence[int], watcher: Watcher) -> list[int]:
    """The shards that are still to be made."""
    missing = []
    for place, number in enumerate(own):
        if finished(folder, manifest, number) is None:
            missing.append(number)
        watcher.stage("checking shards", place + 1, len(own))
    return missing


def _outcome(folder: Path, manifest: Manifest, source: Source, made: int) -> Embedded:
    found: list[ShardFile] = []
    skipped = list(source.skipped)
    for number in range(manifest.shards):
        file = finished(folder, manifest, number, thorough=False)
        if file is not None:
            found.append(file)
            skipped += skipped_of(folder / file.name)
    if len(found) == manifest.shards:
        manifest = manifest.completed(folder, found)
    return Embedded(folder, manifest, found, made, skipped)
