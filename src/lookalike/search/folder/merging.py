"""Merging segments into one: valid rows are copied in the order of their ids."""

import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lookalike.inference.encoder import Vectors
from lookalike.progress import Watcher
from lookalike.search.folder import cells, exact, keys, table
from lookalike.search.folder.cells import Cells, Quantiser
from lookalike.search.folder.disk import (
    allocated,
    damaged,
    fsync_and_checksum,
    mapped,
    remove_segment,
)
from lookalike.search.folder.manifest import SEGMENTS, CellsNote, SegmentNote
from lookalike.search.folder.segment import IDS, KEYS, VECTORS, Ints, Segment
from lookalike.search.folder.selection import Selection
from lookalike.search.items import Precision
from lookalike.search.recall import NEIGHBOURS, least_setting

BLOCK = 65_536


@dataclass(frozen=True)
class Merge:
    """Rows of several segments in the order of their ids: the source and the row of each."""

    sources: Sequence[Selection]
    numbers: Ints
    rows: Ints
    ids: Ints

    @classmethod
    def of(cls, sources: Sequence[Selection]) -> "Merge":
        """All valid rows of some segments."""
        rows = [np.arange(one.count) if one.rows is None else one.rows for one in sources]
        pairs = zip(sources, rows, strict=True)
        ids = np.concatenate([one.segment.ids_at(some) for one, some in pairs])
        numbers = np.repeat(np.arange(len(rows)), [len(some) for some in rows])
        order = np.argsort(ids, kind="stable")
        return cls(sources, numbers[order], np.concatenate(rows)[order], ids[order])

    def __len__(self) -> int:
        return len(self.ids)

    def parts(self, places: Ints) -> Iterator[tuple[Selection, Ints, Ints]]:
        """Each source with the rows that go to some of ``places``, and which these are."""
        for number, source in enumerate(self.sources):
            inside = np.flatnonzero(self.numbers[places] == number)
            if len(inside):
                yield source, self.rows[places[inside]], inside

    def sample(self, count: int, dim: int, seed: int) -> tuple[Ints, Vectors]:
        """Some places, ascending, and their vectors."""
        random = np.random.default_rng(seed)
        places = np.sort(random.choice(len(self), min(count, len(self)), replace=False))
        found = np.empty((len(places), dim), np.float32)
        for source, rows, inside in self.parts(places):
            found[inside] = source.segment.vectors[rows]
        return places, found


def merge(
    folder: Path,
    name: str,
    work: Merge,
    dim: int,
    precision: Precision,
    quantiser: Quantiser | None,
    watcher: Watcher,
) -> SegmentNote:
    """Write a segment of the rows of others, with a fast search by ``quantiser``."""
    home = folder / SEGMENTS / name
    remove_segment(home)  # of a killed compaction
    home.mkdir(parents=True)
    first = work.sources[0]
    columns = tuple(
        dict.fromkeys(column for one in work.sources for column in one.segment.note.columns)
    )
    if len(work.sources) == 1 and first.bits is None:
        for file in (VECTORS, IDS, KEYS, table.FILE):
            _link(first.segment.home / file, home / file)
    else:
        _copy(home, work, dim, precision, columns, watcher)
    fast = refused = None
    if quantiser is not None:
        fast = _build(home, work, dim, precision, quantiser, watcher)
        refused = None if fast else quantiser.note.file
    return SegmentNote(
        name=name,
        count=len(work),
        first=int(work.ids[0]),
        last=int(work.ids[-1]),
        columns=columns,
        files=fsync_and_checksum(home),
        fast=fast,
        refused=refused,
    )


def _copy(
    home: Path,
    work: Merge,
    dim: int,
    precision: Precision,
    columns: Sequence[str],
    watcher: Watcher,
) -> None:
    np.save(home / IDS, work.ids)
    written = allocated(home / VECTORS, precision, (len(work), dim))
    hashes = np.empty(len(work), np.uint64)
    by_row = [_hashes_by_row(source.segment) for source in work.sources]
    for start in range(0, len(work), BLOCK):
        places = np.arange(start, min(start + BLOCK, len(work)))
        for source, rows, inside in work.parts(places):
            written[places[inside]] = source.segment.vectors[rows]
        watcher.stage("merging", int(places[-1]) + 1, len(work))
    for number, known in enumerate(by_row):
        mine = work.numbers == number
        hashes[mine] = known[work.rows[mine]]
    np.save(home / KEYS, keys.sorted_keys(hashes))
    written.flush()
    schema = table.schema_of(columns)
    with pa.OSFile(str(home / table.FILE), "wb") as file, pa.ipc.new_file(file, schema) as out:
        for start in range(0, len(work), table.BATCH_ROWS):
            places = np.arange(start, min(start + table.BATCH_ROWS, len(work)))
            batches, order = [], []
            for source, rows, inside in work.parts(places):
                batches += source.segment.table.taken(rows, schema)
                order.append(inside)
            back = np.argsort(np.concatenate(order), kind="stable")
            together = pa.Table.from_batches(batches, schema).take(table.indices(back))
            out.write_batch(together.combine_chunks().to_batches()[0])


def _hashes_by_row(segment: Segment) -> keys.Hashes:
    hashes, rows = segment.keys
    if len(rows) and int(rows.max()) >= len(rows):
        raise damaged(segment.folder, f"{KEYS} names pictures beyond the last")
    found = np.empty(len(rows), np.uint64)
    found[rows.astype(np.int64)] = hashes
    return found


def _build(
    home: Path,
    work: Merge,
    dim: int,
    precision: Precision,
    quantiser: Quantiser,
    watcher: Watcher,
) -> CellsNote | None:
    """Write the fast search of a new segment; None: it has too little recall."""
    stored = mapped(home / VECTORS, (len(work), dim), precision)
    assigned = np.empty(len(work), np.uint32)
    for number, source in enumerate(work.sources):
        mine = np.flatnonzero(work.numbers == number)
        old = source.segment.cells
        if old is not None and old.quantiser.note == quantiser.note:
            assigned[mine] = old.cells[work.rows[mine]]
            continue
        for start in range(0, len(mine), BLOCK):
            some = mine[start : start + BLOCK]
            assigned[some] = quantiser.assign(stored[some])
            watcher.stage("assigning", start + len(some), len(mine))
    cells.write(home, quantiser, stored, assigned)
    note = measure(home, stored, quantiser)
    if note.recall >= cells.LEAST_RECALL:
        return note
    watcher.note(
        f"search of {len(work):,} pictures stays exact; the recall@{NEIGHBOURS} of the fast search "
        f"is {note.recall:.3f} even with nprobe {note.nprobe}"
    )
    (home / cells.FILE).unlink(missing_ok=True)
    (home / cells.CELLS).unlink(missing_ok=True)
    return None


def measure(home: Path, stored: NDArray[Any], quantiser: Quantiser) -> CellsNote:
    """The least ``nprobe`` that finds enough of the true neighbours of some pictures."""
    random = np.random.default_rng(1)
    rows = np.sort(random.choice(len(stored), min(cells.SAMPLE, len(stored)), replace=False))
    queries = np.ascontiguousarray(stored[rows], np.float32)
    truth = exact.nearest(queries, stored, NEIGHBOURS + 1)[1].tolist()
    note = CellsNote(quantiser=quantiser.note.file, nprobe=1, recall=0, sample=len(rows))
    search = Cells(home, len(stored), quantiser, note)

    def found(nprobe: int) -> list[list[int]]:
        search.set_nprobe(nprobe)
        return list(search.search(queries, NEIGHBOURS + 1)[1].tolist())

    nprobe, recall = least_setting(cells.NPROBES, rows.tolist(), truth, found)
    return note.model_copy(update={"nprobe": nprobe, "recall": recall})


def _link(source: Path, target: Path) -> None:
    """The same file under another name, or a copy where the file system has no links."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)
