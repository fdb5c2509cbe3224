"""One consistent state of an index: its segments, and which of their rows were removed."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Self, overload

import numpy as np
import pyarrow as pa

from lookalike.errors import BadInput
from lookalike.inference.encoder import Vectors
from lookalike.search.contents import Contents
from lookalike.search.filters import Filter
from lookalike.search.folder import cells, keys
from lookalike.search.folder.cells import Quantiser
from lookalike.search.folder.disk import damaged
from lookalike.search.folder.log import read_log
from lookalike.search.folder.manifest import Manifest, mark_of
from lookalike.search.folder.nearest import nearest
from lookalike.search.folder.segment import (
    REMEMBERED,
    Ints,
    Segment,
    pack,
    unpack,
    without,
)
from lookalike.search.folder.selection import Selection
from lookalike.search.folder.table import TEXT, indices
from lookalike.search.items import Hit, Record

BLOCK = 10_000
VERIFIED = 64 << 20
"""Files of so many bytes together are compared with their checksums when an index is opened."""


class Snapshot(Contents):
    """The segments that a manifest names.

    Opening reads no data but the tombstones: files are mapped, and their sizes compared with the
    manifest. Files of up to :data:`VERIFIED` bytes together, the smallest first, are compared with
    their checksums, so that a flipped bit in a small index is noticed at once; ``lookalike index
    check`` compares all.

    Args:
        folder: The folder of the index.
        manifest: What is valid.
        former: A state of the same index, whose segments are used again.
    """

    mark: tuple[int, int, int] = (0, 0, 0)
    """What tells that the index has changed since it was opened."""

    def __init__(self, folder: Path, manifest: Manifest, former: "Snapshot | None" = None) -> None:
        self.folder, self.manifest = folder, manifest
        self.state = manifest.state
        known = former.manifest.files if former else {}
        verify(folder, manifest, known)
        self.quantisers: dict[str, Quantiser] = dict(former.quantisers) if former else {}
        for note in manifest.quantisers:
            if note.file not in self.quantisers or self.quantisers[note.file].note != note:
                note.note.refuse_size(folder, folder / note.file)
                try:
                    self.quantisers[note.file] = cells.load(
                        folder / note.file, note, manifest.dim, manifest.vectors
                    )
                except ValueError as error:
                    raise damaged(folder, str(error)) from error
        old = {segment.note.name: segment for segment in former.segments} if former else {}
        self.segments: list[Segment] = []
        for one in manifest.segments:
            segment = old.get(one.name)
            if segment is None or segment.note != one:
                segment = Segment(folder, one, manifest.dim, manifest.vectors, self.quantisers)
            self.segments.append(segment)
        self.quantisers = {note.file: self.quantisers[note.file] for note in manifest.quantisers}
        self._removed_rows = self._rows_removed(former)
        self._selections: dict[tuple[int, str | None], Selection] = {}

    @classmethod
    def open(cls, folder: Path, former: "Snapshot | None" = None) -> Self:
        """The newest state; a writer may remove files while they are being opened."""
        mark, manifest = mark_of(folder), Manifest.read(folder)
        while True:
            try:
                found = cls(folder, manifest, former)
                found.mark = mark
                return found
            except FileNotFoundError as error:
                newer = Manifest.read(folder)
                if newer.generation == manifest.generation:
                    raise damaged(folder, f"'{error.filename}' is missing") from error
                mark, manifest = mark_of(folder), newer

    def _rows_removed(self, former: "Snapshot | None") -> list[Ints]:
        """The removed rows of each segment; every tombstone must have one."""
        note = self.manifest.removed
        before = former.manifest.removed if former else None
        known: dict[str, Ints] = {}
        if former and before and note and before.file == note.file:
            pairs = zip(former.segments, former._removed_rows, strict=True)
            known = {segment.note.name: rows for segment, rows in pairs if len(rows)}
        if not known.keys() <= {segment.note.name for segment in self.segments}:
            known = {}  # their tombstones may be of a merged segment now
        if not known:
            before = None
        fresh = read_log(self.folder, note, before)
        parts = []
        for segment in self.segments:
            inside = fresh[(fresh >= segment.note.first) & (fresh <= segment.note.last)]
            rows = segment.rows_of(inside)
            old = known.get(segment.note.name, np.empty(0, np.int64))
            parts.append(np.sort(np.concatenate([old, rows[rows >= 0]]), kind="stable"))
        if sum(map(len, parts)) != (note.entries if note else 0):
            raise damaged(self.folder, "its tombstones name pictures that it does not have")
        return parts

    def selections(self, where: Filter | None = None) -> list[Selection]:
        """The valid rows of each segment to which a filter applies."""
        return [self._selection(number, where) for number in range(len(self.segments))]

    def _selection(self, number: int, where: Filter | None) -> Selection:
        key = (number, where.text if where is not None else None)
        found = self._selections.get(key)
        if found is not None:
            return found
        segment, gone = self.segments[number], self._removed_rows[number]
        if where is None:
            bits = without(len(segment), gone) if len(gone) else None
            found = Selection(segment, bits, len(segment) - len(gone))
        else:
            mask = unpack(segment.matches(where), len(segment))
            mask[gone] = False
            count = int(np.count_nonzero(mask))
            every = count == len(segment)
            found = Selection(segment, None if every else pack(mask), count, filtered=True)
        if len(self._selections) > REMEMBERED * len(self.segments):
            self._selections.clear()
        self._selections[key] = found
        return found

    def locate(self, ids: Ints) -> tuple[Ints, Ints]:
        """The segment and the row of each id; -1: there is no such picture."""
        numbers, places = np.full(len(ids), -1), np.full(len(ids), -1)
        for number, segment in enumerate(self.segments):
            inside = np.flatnonzero((ids >= segment.note.first) & (ids <= segment.note.last))
            if not len(inside):
                continue
            rows = segment.rows_of(ids[inside])
            if len(self._removed_rows[number]):
                rows = np.where(contains(self._removed_rows[number], rows), -1, rows)
            numbers[inside[rows >= 0]] = number
            places[inside[rows >= 0]] = rows[rows >= 0]
        return numbers, places

    def where_is(self, ids: Sequence[int]) -> tuple[Ints, Ints]:
        """As :meth:`locate`; an unknown id is refused."""
        try:
            numbers, rows = self.locate(np.asarray(ids, np.int64).reshape(-1))
        except OverflowError as error:
            raise self._no_picture(next(id for id in ids if abs(id) >= 2**63)) from error
        if (numbers < 0).any():
            raise self._no_picture(ids[int(np.flatnonzero(numbers < 0)[0])])
        return numbers, rows

    def _no_picture(self, id: int) -> BadInput:
        return BadInput(f"there is no picture {id} in the index '{self.folder}'")

    def lookup(self, wanted: Sequence[tuple[int, str]]) -> Iterator[tuple[int, int]]:
        """Place among the wanted (root, path), and id of pictures that are there."""
        if not wanted:
            return
        hashes = keys.hash_keys(wanted)
        for number, segment in enumerate(self.segments):
            gone = self._removed_rows[number]
            for place, row in segment.lookup(wanted, hashes):
                if not contains(gone, row):
                    yield place, int(segment.ids[row])

    @property
    def ids(self) -> Ints:
        """The id of each picture, ascending."""
        return self.layout[0]

    @cached_property
    def vectors(self) -> Vectors:
        """All vectors; mapped where one segment holds them as float32, else copied."""
        chosen = self.selections()
        if len(chosen) == 1 and chosen[0].bits is None and self.manifest.vectors == "float32":
            return chosen[0].segment.vectors
        return self.decoded(*self.layout[1:])

    @cached_property
    def records(self) -> Sequence[Record]:
        """What is stored about each picture."""
        return Records(self)

    @cached_property
    def labels(self) -> Sequence[str | None]:
        """The label of each picture."""
        _, numbers, rows = self.layout
        found = np.full(len(rows), None, object)
        for number, segment in enumerate(self.segments):
            mine = numbers == number
            column = pa.chunked_array(segment.table.column("label"), TEXT)
            found[mine] = column.take(indices(rows[mine])).to_pylist()
        return list(found)

    @cached_property
    def columns(self) -> list[str]:
        """The names of the metadata columns, sorted."""
        return sorted({name for note in self.manifest.segments for name in note.columns})

    def count(self, where: Filter) -> int:
        """How many pictures match a filter."""
        return sum(one.count for one in self.selections(where))

    def ids_where(self, where: Filter) -> Ints:
        """The ids of the pictures that match a filter, ascending."""
        parts = [np.empty(0, np.int64)]
        for one in self.selections(where):
            parts.append(one.segment.ids_at(np.arange(one.count) if one.rows is None else one.rows))
        return np.sort(np.concatenate(parts))

    def ids_of(self, records: Sequence[Record]) -> Ints:
        """The id of the picture with the same folder and path; -1: there is none."""
        found = np.full(len(records), -1)
        for place, id in self.lookup([record.key for record in records]):
            found[place] = id
        return found

    def records_of(self, ids: Sequence[int]) -> list[Record]:
        """What is stored about some pictures."""
        return self.records_at(*self.where_is(ids))

    def vectors_of(self, ids: Sequence[int]) -> Vectors:
        """The unit vectors of some pictures."""
        return self.decoded(*self.where_is(ids))

    @cached_property
    def _only(self) -> Segment | None:
        """The segment, where there is one with cells and nothing of it was removed."""
        selections = self.selections()
        plain = len(selections) == 1 and selections[0].bits is None
        return selections[0].segment if plain and self.segments[0].cells is not None else None

    def search(
        self, queries: Vectors, k: int, where: Filter | None, exact: bool
    ) -> list[list[Hit]]:
        """The nearest pictures and what is known about them."""
        similar, ids = self.nearest(queries, k, where, exact)
        only, flat = self._only, ids.ravel()
        if only is not None and only.gapless and len(only.table.batches) == 1:
            items = only.table.batches[0].items(flat - only.note.first)
        else:
            known = self.records_at(*self.locate(flat))
            items = (
                [record.path for record in known],
                [record.label for record in known],
                [record.metadata for record in known],
            )
        hits = list(map(Hit, flat.tolist(), *items, np.minimum(similar, 1).ravel().tolist()))
        k = ids.shape[1]
        return [hits[at * k : (at + 1) * k] for at in range(len(ids))]

    def nearest(
        self, queries: Vectors, k: int, where: Filter | None, exact: bool
    ) -> tuple[Vectors, Ints]:
        """Similarities and ids of the nearest pictures."""
        only = self._only
        if only is not None and only.cells is not None and where is None and not exact:
            # The common case needs no look at removed rows and other segments.
            similar, rows = only.cells.search(queries, min(k, len(only)))
            if (rows[0, -1] if len(rows) == 1 else rows[:, -1:].min(initial=0)) >= 0:
                return similar, only.ids_at(rows)
        return nearest(self.selections(where), queries, k, exact)

    @cached_property
    def layout(self) -> tuple[Ints, Ints, Ints]:
        """Ids, segments and rows of all pictures, by id: for work on the whole collection."""
        none = np.empty(0, np.int64)
        ids, numbers, rows = [none], [none], [none]
        for number, selection in enumerate(self.selections()):
            chosen = np.arange(selection.count) if selection.rows is None else selection.rows
            ids.append(selection.segment.ids_at(chosen))
            numbers.append(np.full(len(chosen), number))
            rows.append(chosen)
        together = np.concatenate(ids)
        order = np.argsort(together, kind="stable")
        return together[order], np.concatenate(numbers)[order], np.concatenate(rows)[order]

    def decoded(self, numbers: Ints, rows: Ints) -> Vectors:
        """The vectors of rows of segments, float32."""
        found = np.empty((len(rows), self.manifest.dim), np.float32)
        for number in np.unique(numbers).tolist():
            inside = numbers == number
            found[inside] = self.segments[number].vectors[rows[inside]]
        return found

    def records_at(self, numbers: Ints, rows: Ints) -> list[Record]:
        """What is stored about rows of segments."""
        found: dict[int, Record] = {}
        for number in np.unique(numbers).tolist():
            mine = np.flatnonzero(numbers == number)
            records = self.segments[number].table.records(rows[mine])
            found.update(zip(mine.tolist(), records, strict=True))
        return [found[at] for at in range(len(rows))]

    @cached_property
    def label_counts(self) -> dict[str, int]:
        """How many pictures have each label, sorted by label."""
        total: Counter[str] = Counter()
        for segment, gone in zip(self.segments, self._removed_rows, strict=True):
            total.update(segment.label_counts)
            total.subtract(segment.count_labels(gone))
        return {label: total[label] for label in sorted(total) if total[label]}


class Records(Sequence[Record]):
    """What is stored about each picture of a snapshot, read when it is needed."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    def __len__(self) -> int:
        return self._snapshot.state.count

    @overload
    def __getitem__(self, row: int) -> Record: ...
    @overload
    def __getitem__(self, row: slice) -> list[Record]: ...
    def __getitem__(self, row: int | slice) -> Record | list[Record]:
        _, numbers, rows = self._snapshot.layout
        if isinstance(row, slice):
            return self._snapshot.records_at(numbers[row], rows[row])
        row = range(len(self))[row]
        (found,) = self._snapshot.records_at(numbers[row : row + 1], rows[row : row + 1])
        return found

    def __iter__(self) -> Iterator[Record]:
        for start in range(0, len(self), BLOCK):
            yield from self[start : start + BLOCK]


def contains(ordered: Ints, wanted: Any) -> Any:
    """Which of the wanted numbers occur among ascending ones."""
    at = np.searchsorted(ordered, wanted)
    if not len(ordered):
        return np.zeros_like(at, bool)
    return ordered[np.minimum(at, len(ordered) - 1)] == wanted


def verify(folder: Path, manifest: Manifest, known: Iterable[str], budget: int = VERIFIED) -> None:
    """Compare small files with their checksums, except known ones."""
    fresh = [(note.size, name, note) for name, note in manifest.files.items() if name not in known]
    for size, name, note in sorted(fresh, key=lambda one: one[:2]):
        budget -= size
        if budget < 0:
            return
        note.refuse_size(folder, folder / name)
        note.refuse_content(folder, folder / name)
