"""Putting pictures, or vectors that were computed before, into an index of any kind.

What is in the index already and has not changed is left alone; the rest is committed bit by bit, so
that the same call completes what was killed, and nothing is there twice.
"""

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lookalike.errors import BadInput
from lookalike.inference.embedder import Embedder
from lookalike.inference.encoder import Vectors
from lookalike.inference.job import Device, Executor, Options, Share, embed_here, windows_of
from lookalike.inference.source import Source
from lookalike.progress import Watcher
from lookalike.search.index import Index
from lookalike.search.items import Added, Precision, Record, Skipped, records_of
from lookalike.search.vector_files import VectorFile

__all__ = ["embed_into", "import_vectors", "open_or_create"]

SECONDS_BETWEEN_COMMITS = 60.0
LISTED = 65_536
"""Rows of a source that are compared with the index at a time."""
BLOCK = 250_000
"""Rows of one commit of vectors from files."""
CLOSE = {"float32": 1e-6, "float16": 2e-3}
"""How far the numbers of a unit vector may be from what an index has stored of it."""


def embed_into(
    index: Index,
    source: Source,
    options: Options | None = None,
    *,
    share: Share | None = None,
    executor: Executor | None = None,
    watcher: Watcher | None = None,
) -> Added:
    """Embed the pictures of a source by the index's own model; unchanged ones are left alone.

    What has been embedded is committed every minute; the same call completes what was killed, with
    the vectors of an undisturbed run. Several machines may embed into one index (``share``).

    Args:
        index: Where they go.
        source: A folder, CSV, Parquet, WebDataset or store.
        options: Device, precision, batch and threads.
        share: The shards of this machine; None: all.
        executor: What embeds; None: this process.
        watcher: Is told the progress.

    Returns:
        How many pictures were new, changed, unchanged, and which were skipped.
    """
    options, watcher, share = options or Options(), watcher or Watcher(), share or Share()
    Device(index.embedder, options.device, options.precision)  # refuses it before work begins
    done = Added(skipped=list(source.skipped))
    root = index.root_number(source.root)
    rows = share.of(np.arange(len(source)), options.per_shard)
    waiting, replaced = _waiting(index, source, rows, root)
    done.unchanged = len(rows) - len(waiting)
    if done.unchanged and len(waiting):
        watcher.note(f"{done.unchanged:,} of {len(rows):,} pictures are embedded already")
    shards = windows_of(waiting, options)
    kept: list[int] = []
    parts: list[Vectors] = []

    def commit() -> None:
        index.commit(records_of(source.table.take(kept), root), np.concatenate(parts))
        done.changed += (again := len(replaced.intersection(kept)))
        done.new += len(kept) - again

    last, seen = time.monotonic(), 0
    for window in (executor or embed_here)(index.embedder, source, options, shards):
        kept += window.kept
        parts.append(window.vectors)
        done.skipped += [Skipped(source.path_of(row), reason) for row, reason in window.skipped]
        seen += len(window.rows)
        watcher.stage("embedding", seen, len(waiting))
        if kept and time.monotonic() - last > SECONDS_BETWEEN_COMMITS:
            commit()
            kept, parts, last = [], [], time.monotonic()
    if kept:
        commit()
    index.optimize(watcher)
    return done


def _waiting(
    index: Index, source: Source, rows: NDArray[np.int64], root: int
) -> tuple[NDArray[np.int64], set[int]]:
    """The rows that are new or have changed, and which of them have changed."""
    waiting: list[int] = []
    replaced: set[int] = set()
    for start in range(0, len(rows), LISTED):
        some = rows[start : start + LISTED]
        records = records_of(source.table.take(some), root)
        ids, stored = _stored(index, records)
        for row, id, record in zip(some.tolist(), ids.tolist(), records, strict=True):
            if stored.get(id) != record:
                waiting.append(row)
                if id in stored:
                    replaced.add(row)
    return np.array(waiting, np.int64), replaced


def _stored(index: Index, records: Sequence[Record]) -> tuple[NDArray[np.int64], dict[int, Record]]:
    """The id of each picture in the index (-1: it is not there), and its record there, by id."""
    ids = index.ids_of(records)
    known = ids[ids >= 0].tolist()
    return ids, dict(zip(known, index.records_of(known), strict=True))


def import_vectors(
    place: str,
    given: VectorFile,
    dtype: Precision | None = None,
    watcher: Watcher | None = None,
    *,
    block: int = BLOCK,
) -> tuple[Index, Added]:
    """Put vectors into the index at a place, which is created where there is none.

    Those that it has already are left alone. Blocks are committed one by one and search is made
    fast once, at the end.

    Args:
        place: A folder, or ``postgresql://...#name``.
        given: The vectors.
        dtype: The type of the stored vectors; None: float32, or what the index has.
        watcher: Is told the progress.
        block: Rows of one commit.

    Returns:
        The index, and how many vectors were new, changed and unchanged.

    Raises:
        BadInput: A vector is not finite or zero, or as :func:`open_or_create`; nothing is imported
            and no index created then.
    """
    watcher = watcher or Watcher()
    given.check(watcher)
    index = open_or_create(place, given.embedder, given.dim, dtype)
    if index.dim != given.dim:
        raise BadInput(
            f"the index '{index.place}' holds vectors of {index.dim} numbers, not {given.dim}"
        )
    roots = [index.root_number(root) for root in given.roots]
    done, seen = Added(), 0
    for vectors, listed in given.blocks(block):
        records = [replace(record, root=roots[record.root]) for record in listed]
        changed = _changed(index, records, vectors, done)
        if len(changed):
            index.commit([records[row] for row in changed.tolist()], vectors[changed])
        seen += len(records)
        watcher.stage("importing", seen, given.rows)
    index.optimize(watcher)
    return index, done


def _changed(
    index: Index, records: Sequence[Record], vectors: Vectors, done: Added
) -> NDArray[np.int64]:
    """The rows that the index does not have, or has otherwise; ``done`` counts them."""
    ids, stored = _stored(index, records)
    there = np.flatnonzero(ids >= 0)
    same = np.array(
        [stored.get(id) == record for id, record in zip(ids.tolist(), records, strict=True)]
    )
    if len(there):
        off = np.abs(index.vectors_of(ids[there].tolist()) - vectors[there]).max(1)
        same[there] &= off <= CLOSE[index.dtype]
    done.unchanged += int(same.sum())
    done.changed += len(there) - int(same.sum())
    done.new += len(records) - len(there)
    return np.flatnonzero(~same)


def open_or_create(
    place: str, embedder: Embedder | None, dim: int, dtype: Precision | None = None
) -> Index:
    """The index at a place, which must be of the same model, or a new one.

    Args:
        place: A folder, or ``postgresql://...#name``.
        embedder: The model; None: the index is searched by vectors and ids only.
        dim: The size of the vectors.
        dtype: The type of the stored vectors; None: float32, or what the index has.

    Returns:
        The index.

    Raises:
        BadInput: The index there is of another model, size or type.
    """
    try:
        return Index.create(place, embedder, dim=dim, vectors=dtype or "float32")
    except BadInput as refused:
        try:
            index = Index.open(place)
        except BadInput as error:
            damaged = (Path(place) / "index.json").is_file()
            raise (error if damaged else refused) from None
    if index.fingerprint != (embedder.fingerprint if embedder else ""):
        raise BadInput(f"the index '{index.place}' was made by another model; give another place")
    if dtype not in (None, index.dtype):
        raise BadInput(f"the index '{index.place}' stores {index.dtype}, not {dtype}")
    return index
