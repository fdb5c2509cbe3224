"""Vectors from files into an index, a block at a time, resumed where it was interrupted."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow

from lookalike.errors import BadInput
from lookalike.inference.bulk.columns import metadata_columns, metadata_name
from lookalike.inference.embedder import Embedder
from lookalike.inference.encoder import Vectors
from lookalike.progress import Watcher
from lookalike.search.index import Index
from lookalike.search.items import Precision, Record
from lookalike.search.vector_files import VectorFile

__all__ = ["Imported", "import_into", "import_vectors", "open_or_create", "records_of"]

BLOCK = 250_000
"""Rows of one commit."""
CLOSE = {"float32": 1e-6, "float16": 2e-3}
"""How far the numbers of a unit vector may be from what an index has stored of it."""


@dataclass
class Imported:
    """What became of vectors that were given to an index.

    Args:
        new: How many were added.
        changed: How many replaced others of the same path.
        unchanged: How many were in the index already.
    """

    new: int = 0
    changed: int = 0
    unchanged: int = 0

    def __str__(self) -> str:
        return ", ".join(f"{count:,} {name}" for name, count in vars(self).items() if count)


def import_vectors(
    index: Index, given: VectorFile, watcher: Watcher | None = None, *, block: int = BLOCK
) -> Imported:
    """Put vectors into an index; those that it has already are left alone.

    Blocks are committed one by one and search is made fast once, at the end. A killed import is
    completed by the same call: nothing is there twice.

    Args:
        index: Made by the same model, or by none.
        given: The vectors.
        watcher: Is told the progress.
        block: Rows of one commit.

    Returns:
        How many vectors were new, changed and unchanged.

    Raises:
        BadInput: A vector is not finite or zero, a path is there twice, or the index is of another
            model or size; nothing is imported then.
    """
    watcher = watcher or Watcher()
    _check(given, watcher)
    return _import(index, given, watcher, block)


def import_into(
    place: str,
    given: VectorFile,
    embedder: Embedder | None,
    dtype: Precision | None = None,
    watcher: Watcher | None = None,
) -> tuple[Index, Imported]:
    """As :func:`import_vectors`, into the index at a place, which is created where there is none.

    Args:
        place: A folder, or ``postgresql://...#name``.
        given: The vectors.
        embedder: The model that made them; None: it is unknown.
        dtype: The type of the stored vectors; None: float32, or what the index has.
        watcher: Is told the progress.

    Returns:
        The index, and how many vectors were new, changed and unchanged.

    Raises:
        BadInput: As :func:`import_vectors` and :func:`open_or_create`; no index is created then.
    """
    watcher = watcher or Watcher()
    _check(given, watcher)
    index = open_or_create(place, embedder, given.dim, dtype)
    return index, _import(index, given, watcher, BLOCK)


def _check(given: VectorFile, watcher: Watcher) -> None:
    given.check(lambda row: watcher.stage("checking", row, given.rows))


def _import(index: Index, given: VectorFile, watcher: Watcher, block: int) -> Imported:
    """Import vectors that were checked."""
    if index.dim != given.dim:
        raise BadInput(
            f"the index '{index.place}' holds vectors of {index.dim} numbers, not {given.dim}"
        )
    root, done = index.root_number(given.root), Imported()
    for first, vectors, table in given.blocks(block):
        records = records_of(table, root)
        kept = _changed(index, records, vectors, done)
        if len(kept):
            index.commit([records[row] for row in kept.tolist()], vectors[kept])
        watcher.stage("importing", first + len(records), given.rows)
    index.optimize(watcher)
    return done


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


def records_of(table: pyarrow.Table, root: int) -> list[Record]:
    """Rows of a table of pictures as an index stores them."""
    metadata = metadata_columns(table.column_names)
    names = [metadata_name(column) for column in metadata]
    values = [table[column].to_pylist() for column in metadata]
    rows = zip(*values, strict=True) if values else ((),) * len(table)
    fixed = zip(
        *(table[name].to_pylist() for name in ("path", "label", "size", "modified")), strict=True
    )
    return [
        Record(
            path,
            label,
            {name: text for name, text in zip(names, texts, strict=True) if text is not None},
            root,
            -1 if size is None else size,
            modified or 0,
        )
        for (path, label, size, modified), texts in zip(fixed, rows, strict=True)
    ]


def _changed(
    index: Index, records: Sequence[Record], vectors: Vectors, done: Imported
) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
    """The rows that the index does not have, or has otherwise; ``done`` counts them."""
    known = index.ids_of(records)
    there = np.flatnonzero(known >= 0)
    same = np.zeros(len(records), bool)
    if len(there):
        ids = known[there].tolist()
        stored = index.records_of(ids)
        near = np.abs(index.vectors_of(ids) - vectors[there]).max(1) <= CLOSE[index.dtype]
        equal = [stored[place] == records[row] for place, row in enumerate(there.tolist())]
        same[there] = near & np.array(equal)
    done.unchanged += int(same.sum())
    done.changed += len(there) - int(same.sum())
    done.new += len(records) - len(there)
    return np.flatnonzero(~same)
