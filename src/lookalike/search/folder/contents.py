"""One consistent state of an index in a folder."""

from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np

from lookalike.errors import BadInput
from lookalike.inference.encoder import Vectors
from lookalike.search.contents import Contents
from lookalike.search.filters import Filter
from lookalike.search.folder.manifest import Manifest, changed_files, damaged, mark_of
from lookalike.search.folder.rows import hash_keys
from lookalike.search.folder.segment import Segment
from lookalike.search.items import Hit, Record
from lookalike.search.vectors import Ints

VERIFIED = 64 << 20
"""Files of so many bytes together are compared with their checksums when an index is opened."""


class FolderContents(Contents):
    """The segments that a manifest names.

    Opening maps the files, and compares their sizes with the manifest. Files of up to
    :data:`VERIFIED` bytes together, the smallest first, are compared with their checksums, so that
    a flipped bit in a small index is noticed at once; ``lookalike index check`` compares all.

    Args:
        folder: The folder of the index.
        manifest: What is valid.
        former: A state of the same index, whose segments are used again.
    """

    mark: tuple[int, int, int] = (0, 0, 0)
    """What tells that the index has changed since it was opened."""

    def __init__(
        self, folder: Path, manifest: Manifest, former: "FolderContents | None" = None
    ) -> None:
        self.folder, self.manifest, self.state = folder, manifest, manifest.state
        known = former.manifest.files if former else {}
        same = {name for name, note in manifest.files.items() if known.get(name) == note}
        for sentence in changed_files(folder, manifest, same, VERIFIED):
            raise damaged(folder, sentence)
        old = {segment.note.name: segment for segment in former.segments} if former else {}
        self.segments: list[Segment] = [
            one
            if (one := old.get(note.name)) is not None and one.note == note
            else Segment(folder, manifest, note, one)
            for note in manifest.segments
        ]

    @classmethod
    def open(cls, folder: Path, former: "FolderContents | None" = None) -> Self:
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

    @cached_property
    def columns(self) -> list[str]:
        """The names of the metadata columns, sorted."""
        return sorted({name for segment in self.segments for name in segment.rows.columns})

    @cached_property
    def label_counts(self) -> dict[str, int]:
        """How many pictures have each label, sorted by label."""
        total: Counter[str] = Counter()
        for segment in self.segments:
            total.update(segment.label_counts)
        return dict(sorted(total.items()))

    @cached_property
    def ids(self) -> Ints:
        """The id of each picture, ascending."""
        return self._ids(None)

    def _ids(self, where: Filter | None) -> Ints:
        found = [segment.rows.ids[segment.choose(where).rows] for segment in self.segments]
        return np.sort(np.concatenate([np.empty(0, np.int64), *found]), kind="stable")

    @cached_property
    def vectors(self) -> Vectors:
        """All vectors; mapped where one segment holds them as float32, else copied."""
        (only, *others) = self.segments or (None,)
        if only is None or others or len(only.removed) or self.state.dtype != "float32":
            return self.vectors_of(self.ids)
        return only.rows.vectors

    def count(self, where: Filter) -> int:
        """How many pictures match a filter."""
        return sum(segment.choose(where).count for segment in self.segments)

    def ids_where(self, where: Filter) -> Ints:
        """The ids of the pictures that match a filter, ascending."""
        return self._ids(where)

    def find(self, keys: Sequence[tuple[int, str]]) -> tuple[Ints, Ints]:
        """The segment and the row of the picture of each (root, path); -1: there is none."""
        numbers, rows = np.full(len(keys), -1), np.full(len(keys), -1)
        hashes = hash_keys(keys)
        for number, segment in enumerate(self.segments):
            pairs = np.array(list(segment.rows.find(keys, hashes)), np.int64).reshape(-1, 2)
            places, held = pairs[~np.isin(pairs[:, 1], segment.removed)].T
            numbers[places], rows[places] = number, held
        return numbers, rows

    def ids_of(self, records: Sequence[Record]) -> Ints:
        """The id of the picture with the same folder and path; -1: there is none."""
        numbers, rows = self.find([record.key for record in records])
        found = np.full(len(records), -1)
        for number, segment in enumerate(self.segments):
            mine = numbers == number
            found[mine] = segment.rows.ids[rows[mine]]
        return found

    def locate(self, ids: Ints) -> tuple[Ints, Ints]:
        """The segment and the row of each id; -1: there is no such picture."""
        numbers, rows = np.full(len(ids), -1), np.full(len(ids), -1)
        for number, segment in enumerate(self.segments):
            places = segment.places_of(ids)
            numbers[places >= 0] = number
            rows[places >= 0] = places[places >= 0]
        return numbers, rows

    def _known(self, ids: Any) -> tuple[Ints, Ints]:
        """As :meth:`locate`; an unknown id is refused."""
        try:
            numbers, rows = self.locate(np.asarray(ids, np.int64).reshape(-1))
        except OverflowError:
            unknown = next(id for id in ids if abs(id) >= 2**63)
        else:
            if (numbers >= 0).all():
                return numbers, rows
            unknown = ids[int(np.flatnonzero(numbers < 0)[0])]
        raise BadInput(f"there is no picture {unknown} in the index '{self.folder}'")

    def records_of(self, ids: Sequence[int]) -> list[Record]:
        """What is stored about some pictures."""
        numbers, rows = self._known(ids)
        found = np.empty(len(rows), object)
        for number in np.unique(numbers).tolist():
            mine = numbers == number
            found[mine] = self.segments[number].rows.records(rows[mine])
        return list(found)

    def vectors_of(self, ids: Sequence[int] | Ints) -> Vectors:
        """The unit vectors of some pictures."""
        numbers, rows = self._known(ids)
        found = np.empty((len(rows), self.state.dim), np.float32)
        for number in np.unique(numbers).tolist():
            mine = numbers == number
            found[mine] = self.segments[number].rows.vectors[rows[mine]]
        return found

    def search(
        self, queries: Vectors, k: int, where: Filter | None, exact: bool
    ) -> list[list[Hit]]:
        """The nearest pictures and what is known about them."""
        similar, numbers, rows = self.nearest(queries, k, where, exact)
        count, k = similar.shape
        flat = np.minimum(similar, 1).ravel().tolist()
        if numbers is None:
            (only,) = self.segments
            hits = list(map(Hit, *self._items(only, rows.ravel()), flat))
        else:
            found: dict[int, Hit] = {}
            for number in np.unique(numbers).tolist():
                places = np.flatnonzero(numbers == number)
                items = self._items(self.segments[number], rows.ravel()[places])
                near = [flat[at] for at in places]
                found.update(zip(places.tolist(), map(Hit, *items, near), strict=True))
            hits = [found[at] for at in range(count * k)]
        return [hits[at * k : (at + 1) * k] for at in range(count)]

    def _items(self, segment: Segment, rows: Ints) -> tuple[list[Any], ...]:
        """Ids, paths, labels and metadata."""
        return segment.rows.ids[rows].tolist(), *segment.rows.items(rows)

    def nearest(
        self, queries: Vectors, k: int, where: Filter | None, exact: bool
    ) -> tuple[Vectors, Ints | None, Ints]:
        """Similarities, segments (None: there is one) and rows of the nearest pictures."""
        if len(self.segments) == 1:
            similar, rows = self.segments[0].nearest(queries, k, where, exact)
            return similar, None, rows
        none = np.empty((len(queries), 0), np.int64)
        parts = [(none.astype(np.float32), none, none)]
        for number, segment in enumerate(self.segments):
            similar, rows = segment.nearest(queries, k, where, exact)
            parts.append((similar, np.full_like(rows, number), rows))
        columns = [np.concatenate(column, axis=1) for column in zip(*parts, strict=True)]
        order = np.argsort(-columns[0], axis=1, kind="stable")[:, :k]
        similar, numbers, rows = (np.take_along_axis(one, order, 1) for one in columns)
        return similar, numbers, rows
