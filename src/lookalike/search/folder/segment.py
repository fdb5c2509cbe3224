"""A segment: pictures that were added or merged together, in files that never change."""

import threading
from collections import Counter, OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lookalike.inference.encoder import Vectors
from lookalike.search.filters import Filter
from lookalike.search.folder import keys, table
from lookalike.search.folder.cells import Cells, Quantiser
from lookalike.search.folder.disk import damaged, fsync_and_checksum, mapped, remove_segment
from lookalike.search.folder.manifest import SEGMENTS, SegmentNote
from lookalike.search.items import Precision, Record

VECTORS = "vectors.npy"
IDS = "ids.npy"
KEYS = "keys.npy"
REMEMBERED = 16
"""How many filters a segment keeps the answer of."""

Ints = NDArray[np.int64]
Bits = NDArray[np.uint8]


class Segment:
    """The files of a segment, mapped; nothing is read before it is needed."""

    def __init__(
        self,
        folder: Path,
        note: SegmentNote,
        dim: int,
        precision: Precision,
        quantisers: Mapping[str, Quantiser],
    ) -> None:
        home = folder / SEGMENTS / note.name
        self.folder, self.home, self.note = folder, home, note
        for name, file in note.files.items():
            file.refuse_size(folder, home / name)
        try:
            self.vectors: NDArray[Any] = mapped(home / VECTORS, (note.count, dim), precision)
            self.ids: Ints = mapped(home / IDS, (note.count,), np.int64)
            self.keys: keys.Hashes = mapped(home / KEYS, (2, note.count), np.uint64)
            self.table = table.Table(home / table.FILE, note.count)
            self.cells: Cells | None = None
            if note.fast is not None:
                quantiser = quantisers[note.fast.quantiser]
                self.cells = Cells(home, note.count, quantiser, note.fast)
        except ValueError as error:
            raise damaged(folder, str(error)) from error
        if note.count and (self.ids[0], self.ids[-1]) != (note.first, note.last):
            raise damaged(folder, f"ids.npy does not go from {note.first} to {note.last}")
        # New ids have no gaps, so that most segments need not look up the id of a row.
        self.gapless = note.last - note.first + 1 == note.count
        self._answers: OrderedDict[str, Bits] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return self.note.count

    def rows_of(self, ids: Ints) -> Ints:
        """The row of each id; -1: it is not here."""
        if not len(self):
            return np.full(len(ids), -1)
        rows = np.minimum(np.searchsorted(self.ids, ids), len(self) - 1)
        found: Ints = np.where(self.ids[rows] == ids, rows, -1)
        return found

    def ids_at(self, rows: Ints) -> Ints:
        """The id of each row."""
        found: Ints = rows + self.note.first if self.gapless else self.ids[rows]
        return found

    def lookup(
        self, wanted: Sequence[tuple[int, str]], hashes: keys.Hashes
    ) -> Iterable[tuple[int, int]]:
        """Pairs of a place among the wanted (root, path) and the row of that picture."""
        pairs = list(keys.candidates(self.keys, hashes))
        rows = np.array([row for _, row in pairs], np.int64)
        if rows.max(initial=-1) >= len(self):
            raise damaged(self.folder, f"{KEYS} names pictures beyond the last")
        for (place, row), record in zip(pairs, self.table.records(rows), strict=True):
            if record.key == wanted[place]:
                yield place, row

    def matches(self, where: Filter) -> Bits:
        """A bit for each row to which a filter applies; of the last filters it is remembered."""
        found = self._answers.get(where.text)
        if found is None:
            masks = [where.mask(batch) for batch in self.table.batches]
            mask = np.concatenate(masks) if masks else np.empty(0, bool)
            found = pack(mask)
            with self._lock:
                self._answers[where.text] = found
                while len(self._answers) > REMEMBERED:
                    self._answers.popitem(last=False)
        return found

    @cached_property
    def label_counts(self) -> Counter[str]:
        """How many rows have each label, removed ones too."""
        return _counted(self.table.column("label"))

    def count_labels(self, rows: Ints) -> Counter[str]:
        """How many of some rows have each label."""
        batches = self.table.taken(rows, table.schema_of(()))
        return _counted(batch.column("label") for batch in batches)


def _counted(columns: Iterable[pa.Array]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for column in columns:
        for pair in pc.value_counts(column).to_pylist():
            if pair["values"] is not None:
                counts[pair["values"]] += pair["counts"]
    return counts


def without(count: int, rows: Ints) -> Bits:
    """The bits of all rows but some; it costs no look at each row."""
    bits = np.full(count // 8 + 2, 255, np.uint8)
    np.bitwise_and.at(bits, rows >> 3, ~(1 << (rows & 7)).astype(np.uint8))
    return bits


def pack(mask: NDArray[np.bool_]) -> Bits:
    """Bits as FAISS reads them, and a byte more."""
    return np.append(np.packbits(mask, bitorder="little"), np.uint8(0))


def unpack(bits: Bits, count: int) -> NDArray[np.bool_]:
    """The opposite of :func:`pack`."""
    return np.unpackbits(bits, count=count, bitorder="little").view(bool)


def write_new(
    folder: Path,
    name: str,
    records: Sequence[Record],
    values: Vectors,
    first: int,
    precision: Precision,
) -> SegmentNote:
    """Write a segment of new pictures, whose ids begin with ``first``."""
    home = folder / SEGMENTS / name
    remove_segment(home)  # of a killed writer
    home.mkdir(parents=True)
    columns = table.columns_of(records)
    np.save(home / VECTORS, np.ascontiguousarray(values, precision))
    np.save(home / IDS, np.arange(first, first + len(records), dtype=np.int64))
    hashes = keys.hash_keys(record.key for record in records)
    np.save(home / KEYS, keys.sorted_keys(hashes))
    table.write_records(home / table.FILE, records, columns)
    return SegmentNote(
        name=name,
        count=len(records),
        first=first,
        last=first + len(records) - 1,
        columns=columns,
        files=fsync_and_checksum(home),
    )
