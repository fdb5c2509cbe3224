"""What is stored about each picture, as columns of an Arrow file that is mapped into memory.

The file has batches of :data:`BATCH_ROWS` rows, the last one fewer. A metadata column ``price`` is
the Arrow column ``meta:price``: strings, null where a picture has none.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lookalike.search.filters import numbers
from lookalike.search.items import Record

FILE = "items.arrow"
META = "meta:"
SHIFT = 20
BATCH_ROWS = 1 << SHIFT
TEXT = pa.large_string()
FIXED = [
    pa.field("path", TEXT, nullable=False),
    pa.field("label", TEXT),
    pa.field("root", pa.int32(), nullable=False),
    pa.field("size", pa.int64(), nullable=False),
    pa.field("modified", pa.int64(), nullable=False),
]
NEEDED = [at for at, field in enumerate(FIXED) if not field.nullable]

Ints = NDArray[np.int64]


def schema_of(columns: Iterable[str]) -> pa.Schema:
    """The Arrow columns of a segment with these metadata columns."""
    return pa.schema([*FIXED, *(pa.field(META + name, TEXT) for name in columns)])


def columns_of(records: Iterable[Record]) -> tuple[str, ...]:
    """Every metadata column, in the order in which they first occur."""
    return tuple(dict.fromkeys(name for record in records for name in record.metadata))


def indices(rows: Ints) -> pa.Array:
    """Rows for ``take``; ``pa.array`` would import pandas, which takes longer than a search."""
    whole = np.ascontiguousarray(rows, np.int64)
    return pa.Array.from_buffers(pa.int64(), len(whole), [None, pa.py_buffer(whole)])


class Batch:
    """Some rows of a segment: the columns that a filter reads, and single records."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        batch.validate(full=True)  # it may come from anyone: no offset leads out of the file
        if any(batch.column(at).null_count for at in NEEDED):
            raise ValueError("a picture has no path or folder")
        self._batch = batch
        names = batch.schema.names[len(FIXED) :]
        self._metadata = [name.removeprefix(META) for name in names]
        self._texts = batch.select(["path", "label", *names])
        self._numbers: dict[str, NDArray[np.float64]] = {}

    def __len__(self) -> int:
        return int(self._batch.num_rows)

    def text(self, name: str) -> pa.Array | None:
        """``path``, ``label`` or a metadata column; None where there is no such column."""
        column = name if name in ("path", "label") else META + name
        at = self._batch.schema.get_field_index(column)
        return None if at < 0 else self._batch.column(at)

    def number(self, name: str) -> NDArray[np.float64]:
        """A column as numbers, NaN where it is not one."""
        found = self._numbers.get(name)
        if found is None:
            text = self.text(name)
            found = np.full(len(self), np.nan) if text is None else numbers(text)
            self._numbers[name] = found
        return found

    def items(self, rows: Ints) -> tuple[list[Any], list[Any], list[dict[str, str]]]:
        """Paths, labels and metadata of pictures."""
        taken = self._texts.take(indices(rows)).to_pydict()
        paths, labels, *columns = taken.values()
        if not columns:
            return paths, labels, [{} for _ in paths]
        metadata = [
            {
                name: text
                for name, text in zip(self._metadata, texts, strict=True)
                if text is not None
            }
            for texts in zip(*columns, strict=True)
        ]
        return paths, labels, metadata

    def records(self, rows: Ints) -> list[Record]:
        """Everything that is stored about pictures."""
        numbers = self._batch.select(["root", "size", "modified"]).take(indices(rows))
        columns = (*self.items(rows), *numbers.to_pydict().values())
        return [Record(*values) for values in zip(*columns, strict=True)]

    def taken(self, rows: Ints, schema: pa.Schema) -> pa.RecordBatch:
        """Some rows, with the columns of another segment."""
        arrays = []
        for field in schema:
            at = self._batch.schema.get_field_index(field.name)
            missing = pa.nulls(len(rows), field.type)
            arrays.append(missing if at < 0 else self._batch.column(at).take(indices(rows)))
        return pa.record_batch(arrays, schema=schema)


class Table:
    """The pictures of a segment; ``ValueError`` where the file is not one."""

    def __init__(self, path: Path, count: int) -> None:
        try:
            reader = pa.ipc.open_file(pa.memory_map(str(path)))
            names = (name.removeprefix(META) for name in reader.schema.names[len(FIXED) :])
            if reader.schema != schema_of(names):
                raise ValueError("it has other columns than it should")
            self.batches = [Batch(reader.get_batch(at)) for at in range(reader.num_record_batches)]
        except FileNotFoundError:
            raise
        except (pa.ArrowException, OSError, TypeError, ValueError, MemoryError) as error:
            reason = str(error).partition("\n")[0]
            raise ValueError(f"{path.name} cannot be read: {reason}") from error
        sizes = [len(batch) for batch in self.batches]
        if sum(sizes) != count or any(size != BATCH_ROWS for size in sizes[:-1]):
            raise ValueError(f"{path.name} has {sum(sizes)} rows, not {count}")

    def parts(self, rows: Ints) -> Iterable[tuple[Batch, Ints, Ints]]:
        """The batches with any of the rows: which of them these are, and their rows there."""
        where = rows >> SHIFT
        for number in np.unique(where).tolist():
            mine = np.flatnonzero(where == number)
            yield self.batches[number], mine, rows[mine] & (BATCH_ROWS - 1)

    def records(self, rows: Ints) -> list[Record]:
        """Everything that is stored about pictures."""
        found: dict[int, Record] = {}
        for batch, mine, inside in self.parts(rows):
            found.update(zip(mine.tolist(), batch.records(inside), strict=True))
        return [found[at] for at in range(len(rows))]

    def column(self, name: str) -> list[pa.Array | None]:
        """A column, batch by batch."""
        return [batch.text(name) for batch in self.batches]

    def taken(self, rows: Ints, schema: pa.Schema) -> list[pa.RecordBatch]:
        """Ascending rows, with the columns of another segment."""
        return [batch.taken(inside, schema) for batch, _, inside in self.parts(rows)]


def write_records(path: Path, records: Sequence[Record], columns: Sequence[str]) -> None:
    """Write the file of new pictures."""
    schema = schema_of(columns)
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, schema) as writer:
        for start in range(0, len(records), BATCH_ROWS):
            some = records[start : start + BATCH_ROWS]
            values: list[list[Any]] = [
                [record.path for record in some],
                [record.label for record in some],
                [record.root for record in some],
                [record.size for record in some],
                [record.modified for record in some],
                *([record.metadata.get(name) for record in some] for name in columns),
            ]
            arrays = [
                pa.array(column, field.type) for column, field in zip(values, schema, strict=True)
            ]
            writer.write_batch(pa.record_batch(arrays, schema=schema))
