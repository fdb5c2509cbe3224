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


def schema_of(columns: Iterable[str]) -> pa.Schema:
    """The Arrow columns of a segment with these metadata columns."""
    return pa.schema([*FIXED, *(pa.field(META + name, TEXT) for name in columns)])


def columns_of(records: Iterable[Record]) -> tuple[str, ...]:
    """Every metadata column, in the order in which they first occur."""
    return tuple(dict.fromkeys(name for record in records for name in record.metadata))


class Strings:
    """A column of strings, read one by one without a Python object per row."""

    def __init__(self, array: pa.Array) -> None:
        valid, offsets, data = array.buffers()
        self._valid = None if valid is None or not array.null_count else memoryview(valid)
        self._offsets: Sequence[int] = memoryview(offsets).cast("b").cast("q")
        self._data = memoryview(b"" if data is None else data)

    def __getitem__(self, row: int) -> str | None:
        if self._valid is not None and not self._valid[row >> 3] >> (row & 7) & 1:
            return None
        return str(self._data[self._offsets[row] : self._offsets[row + 1]], "utf-8")

    def take(self, rows: list[int]) -> list[str | None]:
        """Some rows: a loop without calls, as every hit of a query passes here."""
        if self._valid is not None:
            return [self[row] for row in rows]
        data, offsets = self._data, self._offsets
        return [str(data[offsets[row] : offsets[row + 1]], "utf-8") for row in rows]


def integers(column: pa.Array) -> NDArray[Any]:
    """A column of integers without nulls, as it lies in the file (``to_numpy`` imports pandas)."""
    width = column.type.bit_width // 8
    data = column.buffers()[1]
    if not len(column) or data is None:
        return np.empty(0, f"i{width}")
    return np.frombuffer(data, f"i{width}", len(column), width * column.offset)


class Batch:
    """Some rows of a segment: the columns that a filter reads, and single records."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        batch.validate(full=True)  # below, its buffers are read as they are
        if any(batch.column(at).null_count for at in NEEDED):
            raise ValueError("a picture has no path or folder")
        self._batch = batch
        self._path = Strings(batch.column(0))
        self._label = Strings(batch.column(1))
        names = batch.schema.names[len(FIXED) :]
        self._metadata = [
            (name.removeprefix(META), Strings(batch.column(at)))
            for at, name in enumerate(names, len(FIXED))
        ]
        self._integers = [integers(batch.column(at)) for at in (2, 3, 4)]
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

    def item(self, row: int) -> tuple[str, str | None, dict[str, str]]:
        """Path, label and metadata of a picture."""
        path = self._path[row]
        assert path is not None
        if not self._metadata:
            return path, self._label[row], {}
        pairs = ((name, strings[row]) for name, strings in self._metadata)
        return path, self._label[row], {name: text for name, text in pairs if text is not None}

    def items(self, rows: list[int]) -> tuple[list[Any], list[Any], list[dict[str, str]]]:
        """Paths, labels and metadata of pictures."""
        if not self._metadata:
            return self._path.take(rows), self._label.take(rows), [{} for _ in rows]
        names = [name for name, _ in self._metadata]
        columns = zip(*(strings.take(rows) for _, strings in self._metadata), strict=True)
        metadata = [
            {name: text for name, text in zip(names, texts, strict=True) if text is not None}
            for texts in columns
        ]
        return self._path.take(rows), self._label.take(rows), metadata

    def record(self, row: int) -> Record:
        """Everything that is stored about a picture."""
        root, size, modified = (int(column[row]) for column in self._integers)
        return Record(*self.item(row), root, size, modified)

    def key(self, row: int) -> tuple[int, str | None]:
        """Folder and path of a picture."""
        return int(self._integers[0][row]), self._path[row]

    def taken(self, rows: NDArray[np.int64], schema: pa.Schema) -> pa.RecordBatch:
        """Some rows, with the columns of another segment."""
        arrays = []
        for field in schema:
            at = self._batch.schema.get_field_index(field.name)
            missing = pa.nulls(len(rows), field.type)
            arrays.append(missing if at < 0 else self._batch.column(at).take(pa.array(rows)))
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

    def at(self, row: int) -> tuple[Batch, int]:
        """The batch of a row, and its place there."""
        return self.batches[row >> SHIFT], row & (BATCH_ROWS - 1)

    def item(self, row: int) -> tuple[str, str | None, dict[str, str]]:
        """Path, label and metadata of a picture."""
        return self.batches[row >> SHIFT].item(row & (BATCH_ROWS - 1))

    def record(self, row: int) -> Record:
        """Everything that is stored about a picture."""
        batch, at = self.at(row)
        return batch.record(at)

    def column(self, name: str) -> list[pa.Array | None]:
        """A column, batch by batch."""
        return [batch.text(name) for batch in self.batches]

    def taken(self, rows: NDArray[np.int64], schema: pa.Schema) -> list[pa.RecordBatch]:
        """Ascending rows, with the columns of another segment."""
        where = rows >> SHIFT
        parts = []
        for number in np.unique(where).tolist():
            inside = rows[where == number] & (BATCH_ROWS - 1)
            parts.append(self.batches[number].taken(inside, schema))
        return parts


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
