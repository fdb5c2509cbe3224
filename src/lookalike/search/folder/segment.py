"""One state of a segment: its rows, which of them were removed, and its fast search."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from lookalike.inference.encoder import Vectors
from lookalike.search.filters import Filter
from lookalike.search.folder.cells import Cells, Narrowed, files_of
from lookalike.search.folder.manifest import (
    SEGMENTS,
    FileNote,
    Manifest,
    SegmentNote,
    damaged,
    noted,
)
from lookalike.search.folder.rows import ITEMS, REMEMBERED, VECTORS, Part, Rows, mapped
from lookalike.search.vectors import Ints, nearest

EXACT_BELOW = 50_000
"""So many pictures get a fast search."""
FEW = 5_000
"""So many rows are compared exactly: no cells are quicker."""


@dataclass(frozen=True)
class Chosen:
    """Rows of a segment that are searched: not removed, and a filter applies to them.

    Attributes:
        segment: Where they are.
        mask: A boolean for each row; None: all.
        count: How many they are.
        filtered: A filter was asked for.
    """

    segment: "Segment"
    mask: NDArray[np.bool_] | None
    count: int
    filtered: bool

    @cached_property
    def rows(self) -> Ints:
        """The rows, ascending."""
        if self.mask is None:
            return np.arange(self.count)
        return np.flatnonzero(self.mask)

    @cached_property
    def in_cells(self) -> Narrowed | None:
        """The same for the fast search; None: all rows."""
        cells = self.segment.cells
        assert cells is not None
        return None if self.mask is None else cells.narrowed(self.mask, self.filtered)


class Segment:
    """Pictures that were added or merged together, in one state.

    Args:
        folder: The folder of the index.
        manifest: What is valid.
        note: This segment's part of it.
        former: A former state of it, whose files are used again.
    """

    def __init__(
        self, folder: Path, manifest: Manifest, note: SegmentNote, former: "Segment | None" = None
    ) -> None:
        self.folder, self.note = folder, note
        self.home = folder / SEGMENTS / note.name
        shape = (note.count, manifest.dim)
        with self._explaining():
            kept = self._same(former, VECTORS, ITEMS)
            self.rows: Rows = kept.rows if kept else Rows(self.home, *shape, manifest.vectors)
            self.removed = self._removed()
            self.cells: Cells | None = None
            if note.cells is not None and note.cells.usable:
                kept = self._same(former, *files_of(note.cells.commit))
                if kept is not None and kept.note.cells == note.cells:
                    self.cells = kept.cells
                else:
                    self.cells = Cells(self.home, note.cells, shape, manifest.vectors)
        self.choose = lru_cache(REMEMBERED)(self._choose)

    @contextmanager
    def _explaining(self) -> Iterator[None]:
        try:
            yield
        except ValueError as error:
            raise damaged(self.folder, str(error)) from error

    def _same(self, former: "Segment | None", *names: str) -> "Segment | None":
        """The former state, if it has the same files; those must be named by the manifest."""
        notes = [self.note.files.get(name) for name in names]
        if None in notes:  # and was compared with nothing
            raise ValueError(f"index.json does not name {names[notes.index(None)]}")
        same = former is not None and [former.note.files.get(name) for name in names] == notes
        return former if same else None

    def _removed(self) -> Ints:
        """The removed rows, ascending."""
        if not self.note.tombstones:
            return np.empty(0, np.int64)
        name = tombstones_of(self.note.tombstones)
        self._same(None, name)
        found = np.array(mapped(self.home / name, (self.note.removed,), np.int64))
        if (np.diff(found, prepend=-1, append=self.note.count) <= 0).any():
            raise ValueError(f"{name} names pictures that there are not")
        return found

    def __len__(self) -> int:
        return self.note.count

    def without(self, rows: Ints, commit: int) -> SegmentNote:
        """Write the tombstones of more rows, as commit number ``commit``; the new note."""
        gone = np.union1d(self.removed, rows)
        name, former = tombstones_of(commit), tombstones_of(self.note.tombstones)
        np.save(self.home / name, gone)
        files: dict[str, FileNote] = {**self.note.files, **noted(self.home, name)}
        files.pop(former, None)
        changes = {"removed": len(gone), "tombstones": commit, "files": files}
        return self.note.model_copy(update=changes)

    def places_of(self, ids: Ints) -> Ints:
        """The row of each id; -1: it is not here, or was removed."""
        rows = self.rows.places_of(ids)
        return np.where(np.isin(rows, self.removed), -1, rows) if len(self.removed) else rows

    def _choose(self, where: Filter | None) -> Chosen:
        """The rows that were not removed and to which a filter applies."""
        if where is None and not len(self.removed):
            return Chosen(self, None, len(self), filtered=False)
        mask = np.ones(len(self), bool) if where is None else self.rows.matches(where).copy()
        mask[self.removed] = False
        count = int(np.count_nonzero(mask))
        return Chosen(self, None if count == len(self) else mask, count, where is not None)

    @property
    def part(self) -> Part:
        """What a merge takes of it."""
        return Part(self.rows.batch, self.rows.vectors, self.choose(None).rows)

    @cached_property
    def label_counts(self) -> dict[str, int]:
        """How many pictures have each label."""
        labels: Any = self.rows.text("label")
        mask = self.choose(None).mask
        counts = pc.value_counts(labels if mask is None else labels.filter(mask))
        pairs = (pair.as_py() for pair in counts)
        return {one["values"]: one["counts"] for one in pairs if one["values"] is not None}

    def nearest(
        self, queries: Vectors, k: int, where: Filter | None, exact: bool
    ) -> tuple[Vectors, Ints]:
        """Similarities and rows [queries, k or as many as there are], nearest first."""
        chosen = self.choose(where)
        k = min(k, chosen.count)
        if not k:
            return np.empty((len(queries), 0), np.float32), np.empty((len(queries), 0), np.int64)
        vectors, rows = self.rows.vectors, None if chosen.mask is None else chosen.rows
        if exact or self.cells is None or chosen.count <= min(FEW, EXACT_BELOW // 10):
            return nearest(queries, vectors, k, rows)
        similar, found = self.cells.search(queries, k, chosen.in_cells)
        if found[:, -1].min(initial=0) < 0:  # the visited cells have fewer than k chosen rows
            short = np.flatnonzero(found[:, -1] < 0)
            some = np.ascontiguousarray(queries[short])
            similar[short], found[short] = nearest(some, vectors, k, rows)
        return similar, found


def tombstones_of(commit: int) -> str:
    """The file of the removed rows as a commit left them."""
    return f"removed-{commit:06d}.npy"
