"""The files of a segment that never change: a vector for each picture, and what is known of it.

``items.arrow`` has one batch of columns. A metadata column ``price`` is the Arrow column
``meta:price``: strings, null where a picture has none. A picture is found by its folder and path
through ``hash``, a hash of both, and ``by_hash``, the rows in the order of their hashes.
"""

import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lookalike.inference.encoder import Vectors
from lookalike.search.filters import Filter, numbers
from lookalike.search.items import Precision, Record
from lookalike.search.vectors import Ints

VECTORS = "vectors.npy"
ITEMS = "items.arrow"
META = "meta:"
TEXT = pa.large_string()
COLUMNS = [
    pa.field("id", pa.int64(), nullable=False),
    pa.field("path", TEXT, nullable=False),
    pa.field("label", TEXT),
    pa.field("root", pa.int32(), nullable=False),
    pa.field("size", pa.int64(), nullable=False),
    pa.field("modified", pa.int64(), nullable=False),
    pa.field("hash", pa.uint64(), nullable=False),
    pa.field("by_hash", pa.int64(), nullable=False),
]
REMEMBERED = 16
"""How many filters a segment keeps the answer of."""
BLOCK = 65_536

Hashes = NDArray[np.uint64]


def schema_of(columns: Iterable[str]) -> pa.Schema:
    """The Arrow columns of a segment with these metadata columns."""
    return pa.schema([*COLUMNS, *(pa.field(META + name, TEXT) for name in columns)])


def indices(rows: Ints) -> pa.Array:
    """Rows for ``take``; ``pa.array`` would import pandas, which takes longer than a search."""
    whole = np.ascontiguousarray(rows, np.int64)
    return pa.Array.from_buffers(pa.int64(), len(whole), [None, pa.py_buffer(whole)])


def hash_keys(keys: Iterable[tuple[int, str]]) -> Hashes:
    """A hash of each (root, path)."""
    digests = [
        hashlib.blake2b(f"{root}/{path}".encode("utf-8", "surrogatepass"), digest_size=8).digest()
        for root, path in keys
    ]
    return np.frombuffer(b"".join(digests), "<u8").astype(np.uint64)


class Rows:
    """The pictures of a segment, mapped into memory; ``ValueError`` where a file is damaged.

    Args:
        home: The folder of the segment.
        count: How many pictures it has.
        dim: The size of a vector.
        precision: The type of its numbers.
    """

    def __init__(self, home: Path, count: int, dim: int, precision: Precision) -> None:
        self.vectors: NDArray[Any] = mapped(home / VECTORS, (count, dim), precision)
        self.batch = read_items(home / ITEMS, count)
        self.ids: Ints = self._plain("id")
        self._root, self._hash = self._plain("root"), self._plain("hash")
        self._by_hash: Ints = self._plain("by_hash")
        texts = self.batch.schema.names[len(COLUMNS) :]
        self.columns = [name.removeprefix(META) for name in texts]
        self._texts = self.batch.select(["path", "label", *texts])
        self._files = self.batch.select(["root", "size", "modified"])
        self._numbers: dict[str, pa.Array | None] = {}
        self.matches = lru_cache(REMEMBERED)(self._matches)

    def _plain(self, name: str) -> NDArray[Any]:
        column: NDArray[Any] = np.from_dlpack(self.batch.column(name))  # to_numpy imports pandas
        return column

    def __len__(self) -> int:
        return len(self.ids)

    def text(self, name: str) -> pa.Array | None:
        """``path``, ``label`` or a metadata column; None where there is no such column."""
        at = self.batch.schema.get_field_index(name if name in ("path", "label") else META + name)
        return None if at < 0 else self.batch.column(at)

    def number(self, name: str) -> pa.Array | None:
        """A column as numbers, null where it is none."""
        if name not in self._numbers:
            text = self.text(name)
            self._numbers[name] = None if text is None else numbers(text)
        return self._numbers[name]

    def _matches(self, where: Filter) -> NDArray[np.bool_]:
        """The rows to which a filter applies; of the last filters it is remembered."""
        return where.mask(self)

    def items(self, rows: Ints) -> tuple[list[str], list[str | None], list[dict[str, str]]]:
        """Paths, labels and metadata of pictures."""
        paths, labels, *texts = self._texts.take(indices(rows)).to_pydict().values()
        if not texts:
            return paths, labels, [{} for _ in paths]
        names = self.columns
        return (
            paths,
            labels,
            [
                {name: text for name, text in zip(names, row, strict=True) if text is not None}
                for row in zip(*texts, strict=True)
            ],
        )

    def records(self, rows: Ints) -> list[Record]:
        """Everything that is stored about pictures."""
        columns = (*self.items(rows), *self._files.take(indices(rows)).to_pydict().values())
        return [Record(*values) for values in zip(*columns, strict=True)]

    def places_of(self, ids: Ints) -> Ints:
        """The row of each id; -1: it is not here."""
        if not len(self):
            return np.full(len(ids), -1)
        rows = np.minimum(np.searchsorted(self.ids, ids), len(self) - 1)
        found: Ints = np.where(self.ids[rows] == ids, rows, -1)
        return found

    def find(self, keys: Sequence[tuple[int, str]], hashes: Hashes) -> Iterator[tuple[int, int]]:
        """Pairs of a place among the wanted (root, path) and the row of that picture."""
        left, right = (
            np.searchsorted(self._hash, hashes, side, sorter=self._by_hash)
            for side in ("left", "right")
        )
        wanted = np.flatnonzero(right > left).tolist()
        found = [(place, at) for place in wanted for at in range(left[place], right[place])]
        rows = self._by_hash[np.array([at for _, at in found], np.int64)]
        paths = self._texts.column("path").take(indices(rows)).to_pylist()
        held = zip(self._root[rows].tolist(), paths, strict=True)
        for (place, _), row, key in zip(found, rows.tolist(), held, strict=True):
            if key == keys[place]:
                yield place, row


def read_items(path: Path, count: int) -> pa.RecordBatch:
    """The columns of a segment, mapped; the file may come from anyone."""
    try:
        reader = pa.ipc.open_file(pa.memory_map(str(path)))
        names = (name.removeprefix(META) for name in reader.schema.names[len(COLUMNS) :])
        if reader.schema != schema_of(names):
            raise ValueError("it has other columns than it should")
        if reader.num_record_batches != 1 or len(batch := reader.get_batch(0)) != count:
            raise ValueError(f"it does not have {count} rows")
        batch.validate(full=True)  # no offset leads out of the file
        needed = [at for at, field in enumerate(COLUMNS) if not field.nullable]
        if any(batch.column(at).null_count for at in needed):
            raise ValueError("a picture has no path or folder")
        order = np.from_dlpack(batch.column("by_hash"))  # to_numpy imports pandas
        if count and not 0 <= order.min() <= order.max() < count:
            raise ValueError("it names pictures beyond the last")
    except FileNotFoundError:
        raise
    except (pa.ArrowException, OSError, TypeError, ValueError, MemoryError) as error:
        reason = str(error).partition("\n")[0]
        raise ValueError(f"{path.name} cannot be read: {reason}") from error
    return batch


@dataclass(frozen=True)
class Part:
    """Rows of a segment that is written.

    Attributes:
        items: Their columns.
        vectors: Their vectors.
        rows: Which of both; None: all.
    """

    items: pa.RecordBatch
    vectors: NDArray[Any]
    rows: Ints | None = None

    @classmethod
    def new(cls, records: Sequence[Record], vectors: Vectors, first: int) -> "Part":
        """New pictures, whose ids begin with ``first``."""
        names = dict.fromkeys(name for record in records for name in record.metadata)
        schema = schema_of(names)
        columns: list[Any] = [
            range(first, first + len(records)),
            [record.path for record in records],
            [record.label for record in records],
            [record.root for record in records],
            [record.size for record in records],
            [record.modified for record in records],
            hash_keys(record.key for record in records),
            np.zeros(len(records), np.int64),
            *([record.metadata.get(name) for record in records] for name in names),
        ]
        arrays = [
            pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)
        ]
        return cls(pa.record_batch(arrays, schema=schema), vectors)

    def __len__(self) -> int:
        return len(self.vectors) if self.rows is None else len(self.rows)


def write_rows(home: Path, precision: Precision, parts: Sequence[Part]) -> None:
    """Write the files of a segment of some rows, in the order of their ids.

    Vectors are copied a block at a time; the columns of all rows are in memory for a moment.
    """
    tables = [pa.Table.from_batches([part.items]) for part in parts]
    taken = [
        table if part.rows is None else table.take(indices(part.rows))
        for table, part in zip(tables, parts, strict=True)
    ]
    table = pa.concat_tables(taken, promote_options="default")
    order = np.argsort(table["id"].to_numpy(), kind="stable")
    table = table.take(indices(order)).combine_chunks()
    by_hash = np.argsort(table["hash"].to_numpy(), kind="stable")
    at = table.schema.get_field_index("by_hash")
    table = table.set_column(at, COLUMNS[at], indices(by_hash))
    names = [name.removeprefix(META) for name in table.column_names[len(COLUMNS) :]]
    schema = schema_of(names)
    with pa.OSFile(str(home / ITEMS), "wb") as file, pa.ipc.new_file(file, schema) as out:
        out.write_batch(pa.record_batch([one.chunk(0) for one in table.columns], schema=schema))
    written = allocated(home / VECTORS, precision, (len(order), parts[0].vectors.shape[1]))
    places, done = np.empty(len(order), np.int64), 0
    places[order] = np.arange(len(order))
    for part in parts:
        for start in range(0, len(part), BLOCK):
            stop = min(start + BLOCK, len(part))
            rows = slice(start, stop) if part.rows is None else part.rows[start:stop]
            written[places[done + start : done + stop]] = part.vectors[rows]
        done += len(part)
    written.flush()


def mapped(path: Path, shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
    """An array in a file, which must have this shape; writing to it changes no file."""
    try:
        mode: Any = "c" if 0 not in shape else None
        array: Any = np.load(path, mmap_mode=mode, allow_pickle=False)
    except OSError:
        raise
    except Exception as error:  # NumPy raises almost any exception for a forged header
        raise ValueError(f"{path.name} cannot be read") from error
    if not isinstance(array, np.ndarray):
        raise ValueError(f"{path.name} is an archive")
    if array.shape != shape or array.dtype != dtype:
        raise ValueError(f"{path.name} is {array.dtype} {array.shape}, not {shape}")
    return array


def allocated(path: Path, dtype: Any, shape: tuple[int, ...]) -> Any:
    """An array in a new file whose space is reserved: a full disk is an error here, not later."""
    array = np.lib.format.open_memmap(path, "w+", np.dtype(dtype), shape)
    if hasattr(os, "posix_fallocate"):  # macOS has none
        with path.open("r+b") as file:
            os.posix_fallocate(file.fileno(), 0, path.stat().st_size)
    return array
