"""The folder of an index: one process writes at a time, others read what is valid.

Segments are merged by rule, beside readers and other writers: the smaller half of them when there
are more than sixteen, those without fast search when they have enough pictures for one, a segment
by itself when more than a fifth of it was removed, and all when the collection has outgrown the
centroids. Merging needs no write lock; that is held only while the manifest is replaced. A killed
writer leaves files that no manifest names, and the next one removes them.
"""

import re
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

import numpy as np

from lookalike.errors import BadInput, LookalikeError
from lookalike.files import locked, naming, refuse_links
from lookalike.inference.embedder import (
    Blueprint,
    Embedder,
    parse_settings,
    read_settings,
)
from lookalike.inference.encoder import Vectors
from lookalike.progress import Watcher
from lookalike.search.contents import Address, Store
from lookalike.search.folder import cells, segment
from lookalike.search.folder.contents import FolderContents
from lookalike.search.folder.manifest import (
    NAME,
    SEGMENTS,
    CellsNote,
    Damaged,
    Manifest,
    SegmentNote,
    changed_files,
    fsync,
    mark_of,
    noted,
)
from lookalike.search.folder.rows import ITEMS, VECTORS, Part, write_rows
from lookalike.search.folder.segment import Segment
from lookalike.search.items import Precision, Record
from lookalike.search.vectors import NEIGHBOURS

LOCK_SECONDS = 30.0
COMPACTION_SECONDS = 2.0
WRITE_LOCK = ".lock"
COMPACTION_LOCK = ".compact.lock"

MOST = 16
"""Segments; of more the smaller half is merged, so that a picture is copied a few times only."""
CROWDED = 64
"""Segments after which also a long ingest pauses to merge some."""
REMOVED = 0.2
"""The share of removed pictures above which a segment is written anew."""
GROWTH = 4
"""When the collection is so many times as large, centroids are trained anew."""

MERGED = r"m\d{6,}"
CELLS = r"(cells|centroids)-\d{6,}\.npy|lists-\d{6,}\.bin"
OURS = re.compile(
    rf"(s\d{{6,}}|{MERGED})"
    rf"(/({re.escape(VECTORS)}|{re.escape(ITEMS)}|removed-\d{{6,}}\.npy|{CELLS}))?"
)
"""Segments and their files as writers name them; nothing else is ever removed."""
OF_COMPACTION = re.compile(rf"{MERGED}(/.*)?|.*/({CELLS})")
"""Those that are written without the write lock."""


class FolderStore(Store[FolderContents]):
    """An index in a folder.

    Args:
        place: The folder.
    """

    def __init__(self, place: Address) -> None:
        self.folder = Path(str(place))
        self.place = self.address = str(self.folder)

    @classmethod
    def create(
        cls, place: Address, embedder: Embedder | None, dim: int, vectors: Precision
    ) -> "FolderStore":
        """A new index without pictures."""
        folder = Path(str(place))
        refuse_existing(folder)
        if folder.exists() and not (folder.is_dir() and only_leftovers(folder)):
            raise BadInput(f"'{folder}' exists already and is not an index")
        folder.mkdir(parents=True, exist_ok=True)
        with writing(folder):
            refuse_existing(folder)  # another process was faster
            if embedder is not None:
                embedder.save(folder / "model")
            (folder / SEGMENTS).mkdir(exist_ok=True)
            fsync(folder)
            mark = embedder.fingerprint if embedder is not None else ""
            new = Manifest(model=mark, dim=dim, vectors=vectors, updated=time.time())
            new.write(folder)
        return cls(place)

    def load_model(self) -> Embedder:
        """The model of the index."""
        return Embedder.load(self.folder / "model")

    def blueprint(self) -> Blueprint:
        """How its network is built."""
        return parse_settings(read_settings(self.folder / "model"), self.place)[0]

    def newest(self, former: FolderContents | None = None) -> FolderContents:
        """The newest state; ``former`` itself where nothing has changed."""
        if former is None:
            return FolderContents.open(self.folder)
        if mark_of(self.folder) == former.mark:
            return former
        try:
            return FolderContents.open(self.folder, former)
        except Damaged:  # or another index that was put in its place
            return FolderContents.open(self.folder)

    def commit(
        self,
        former: FolderContents,
        records: Sequence[Record],
        vectors: Vectors,
        dropped: Iterable[int],
    ) -> FolderContents:
        """Write a segment and tombstones, then make them valid; other writers may do so too."""
        unique = {record.key: row for row, record in enumerate(records)}
        rows = list(unique.values())
        with writing(self.folder):
            newest = FolderContents.open(self.folder, former)
            manifest, commit = newest.manifest, newest.manifest.generation + 1
            gone = zip(
                newest.locate(np.fromiter(dropped, np.int64)),
                newest.find(list(unique)),
                strict=True,
            )
            numbers, places = (np.concatenate(pair) for pair in gone)
            notes = [
                one.without(places[numbers == number], commit) if number in numbers else one.note
                for number, one in enumerate(newest.segments)
            ]
            if rows:
                part = Part.new([records[row] for row in rows], vectors[rows], manifest.next_id)
                notes.append(
                    written(self.folder, f"s{commit:06d}", newest, [part]),
                )
            next_id = manifest.next_id + len(rows)
            found = publish(newest, notes, next_id=next_id)
        if len(found.segments) > CROWDED:
            return self.optimize(found, Watcher())
        return found

    def add_root(self, root: Path) -> None:
        """Give a folder the next number, unless it has one."""
        with writing(self.folder):
            newest = Manifest.read(self.folder)
            if str(root) not in newest.roots:
                roots = (*newest.roots, str(root))
                changes = {"roots": roots, "generation": newest.generation + 1}
                newest.model_copy(update=changes).write(self.folder)

    def optimize(self, contents: FolderContents, watcher: Watcher) -> FolderContents:
        """Merge segments by rule, unless another process does."""
        if plan(contents):
            with compacting(self.folder) as mine:
                if mine:
                    merge_by_rule(contents, watcher)
        return self.newest(contents)

    def compact(self, contents: FolderContents, watcher: Watcher) -> FolderContents:
        """Merge all segments into one, without removed pictures."""
        with compacting(self.folder) as mine:
            if not mine:
                raise LookalikeError(f"another process is compacting '{self.folder}'")
            merge_by_rule(contents, watcher, everything=True)
        return self.newest(contents)


def refuse_existing(folder: Path) -> None:
    """Refuse a folder that has an index."""
    if (folder / NAME).exists():
        raise BadInput(
            f"there is an index in '{folder}' already; 'lookalike index add' adds to it, and "
            "another model needs another place"
        )


def only_leftovers(folder: Path) -> bool:
    """Whether a folder is empty, or holds what a killed ``create`` left."""
    return all(
        path.name in ("model", SEGMENTS) or path.name.startswith(".") for path in folder.iterdir()
    )


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Let one process write while others wait for some seconds; links inside are refused."""
    with locked(folder / WRITE_LOCK, LOCK_SECONDS) as mine:
        if not mine:
            raise LookalikeError(
                f"another process has been writing to '{folder}' for {LOCK_SECONDS:.0f} s"
            )
        refuse_links(folder)
        with naming(folder):
            yield


@contextmanager
def compacting(folder: Path, seconds: float | None = None) -> Iterator[bool]:
    """Whether this process may compact: while it does, no other may, and none tidies its files."""
    wait = COMPACTION_SECONDS if seconds is None else seconds
    refuse_links(folder)
    with locked(folder / COMPACTION_LOCK, wait) as mine, naming(folder):
        yield mine


def publish(
    newest: FolderContents,
    notes: Sequence[SegmentNote],
    compactor: bool = False,
    **changes: Any,
) -> FolderContents:
    """Make the next state valid, remove what it does not name, and return it.

    The write lock must be held; ``compactor`` holds the lock of compaction, too.
    """
    folder, manifest = newest.folder, newest.manifest
    changes |= {
        "generation": manifest.generation + 1,
        "updated": time.time(),
        "segments": tuple(notes),
    }
    following = manifest.model_copy(update=changes)
    following.write(folder)
    found = FolderContents(folder, following, newest)
    found.mark = mark_of(folder)
    tidy(folder, following, compactor)
    return found


def tidy(folder: Path, manifest: Manifest, compactor: bool) -> None:
    """Delete what writers left and no manifest names, but for a compaction that still runs."""
    home = folder / SEGMENTS
    for draft in folder.glob(f".{NAME}.????????"):
        draft.unlink(missing_ok=True)
    used = {name.removeprefix(f"{SEGMENTS}/") for name in manifest.files}
    used |= {segment.name for segment in manifest.segments}
    found = {path.relative_to(home).as_posix() for path in (*home.iterdir(), *home.glob("*/*"))}
    stale = {name for name in found - used if OURS.fullmatch(name)}
    merging = {name for name in stale if OF_COMPACTION.fullmatch(name)}
    with nullcontext(True) if compactor or not merging else compacting(folder, 0.0) as mine:
        for name in sorted(stale if mine else stale - merging, reverse=True):
            if "/" in name:
                (home / name).unlink(missing_ok=True)
            else:
                with suppress(OSError):  # it holds what is not ours
                    (home / name).rmdir()


def written(
    folder: Path, name: str, contents: FolderContents, parts: Sequence[Part]
) -> SegmentNote:
    """Write a segment of new pictures, or of rows of other segments."""
    home = folder / SEGMENTS / name
    home.mkdir(parents=True, exist_ok=True)  # a killed writer may have left it
    write_rows(home, contents.manifest.vectors, parts)
    files = noted(home, VECTORS, ITEMS)
    return SegmentNote(name=name, count=sum(map(len, parts)), files=files)


def plan(contents: FolderContents, everything: bool = False) -> list[Segment]:
    """The segments to merge next; those that are merged get a fast search if they are large."""
    every = contents.segments
    tried = [one.note.cells.trained_on for one in every if one.note.cells is not None]
    if everything and (len(every) > 1 or any(len(one.removed) for one in every)):
        return every
    if tried and contents.state.count >= GROWTH * max(tried):
        return every
    slow = [one for one in every if one.note.cells is None]
    if sum(left(one) for one in slow) >= segment.EXACT_BELOW:
        return slow
    if len(every) > MOST:
        return sorted(every, key=left)[: len(every) // 2]
    return [one for one in every if len(one.removed) > REMOVED * len(one)][:1]


def left(one: Segment) -> int:
    """How many pictures of a segment were not removed."""
    return len(one) - len(one.removed)


def merge_by_rule(contents: FolderContents, watcher: Watcher, everything: bool = False) -> None:
    """Merge what the rules say, or ``everything``; the lock of compaction must be held."""
    contents = FolderContents.open(contents.folder, contents)
    while chosen := plan(contents, everything):
        contents = merge(contents, chosen, watcher)
        everything = False


def merge(contents: FolderContents, sources: list[Segment], watcher: Watcher) -> FolderContents:
    """Put a segment in the place of others, and give it a fast search if it is large."""
    folder, commit = contents.folder, contents.manifest.generation
    filled = [one for one in sources if left(one)]
    merged: Segment | None = None
    if filled:
        count = sum(map(left, filled))
        note = filled[0].note
        if len(filled) > 1 or note.removed or note.cells is not None:
            watcher.note(f"merging {count:,} pictures of {len(filled)} segments")
            parts = [one.part for one in filled]
            note = written(folder, f"m{commit:06d}", contents, parts)
        merged = Segment(folder, contents.manifest, note)
        if count >= segment.EXACT_BELOW:
            note = with_cells(contents, filled, merged, commit, watcher)
            merged = Segment(folder, contents.manifest, note, merged)
    with writing(folder):
        newest = FolderContents.open(folder, contents)
        then = {one.note.name: one for one in sources}
        notes = [one.note for one in newest.segments if one.note.name not in then]
        if merged is not None:
            gone = [  # what was removed meanwhile
                now.rows.ids[np.setdiff1d(now.removed, then[now.note.name].removed)]
                for now in newest.segments
                if now.note.name in then
            ]
            rows = merged.places_of(np.concatenate(gone))
            following = newest.manifest.generation + 1
            notes.append(merged.without(rows, following) if len(rows) else merged.note)
        found = publish(newest, notes, compactor=True)
    if merged is not None and merged.cells is not None:
        watcher.note(f"search: {found.state.approximation}")
    return found


def with_cells(
    contents: FolderContents,
    sources: Sequence[Segment],
    merged: Segment,
    commit: int,
    watcher: Watcher,
) -> SegmentNote:
    """The note of a segment with a fast search, or with one that was tried in vain."""
    vectors = merged.rows.vectors
    known = [one.cells for one in contents.segments if one.cells is not None]
    last = max(known, key=lambda one: one.note.trained_on, default=None)
    if last is not None and contents.state.count < GROWTH * last.note.trained_on:
        centroids, trained_on = last.centroids, last.note.trained_on
    else:
        watcher.note("training the cells")
        centroids, trained_on = cells.train(vectors), len(vectors)
    assigned = np.empty(len(vectors), np.uint32)
    for number, source in enumerate(sources):
        rows = source.choose(None).rows
        places = merged.places_of(source.rows.ids[rows])
        if source.cells is not None and np.array_equal(source.cells.centroids, centroids):
            assigned[places] = source.cells.assigned[rows]
        else:
            assigned[places] = cells.assign(vectors[places], centroids)
        watcher.stage("assigning", number + 1, len(sources))
    note = CellsNote(
        commit=commit, cells=len(centroids), trained_on=trained_on, nprobe=1, recall=0, sample=0
    )
    note = cells.build(merged.home, vectors, assigned, centroids, note)
    files = merged.note.files
    if note.usable:
        files = {**files, **noted(merged.home, *cells.files_of(commit))}
    else:
        watcher.note(
            f"search of {len(vectors):,} pictures stays exact; the recall@{NEIGHBOURS} of the fast "
            f"search is {note.recall:.3f} even with nprobe {note.nprobe}"
        )
    return merged.note.model_copy(update={"cells": note, "files": files})


def damage_of(folder: Path, watcher: Watcher) -> list[str]:
    """Why the files of an index cannot be trusted, a sentence for each; empty: they can.

    Args:
        folder: The folder of the index.
        watcher: Is told the progress.

    Returns:
        The sentences.

    Raises:
        BadInput: There is no index.
    """
    while True:
        try:
            manifest = Manifest.read(folder)
            contents = FolderContents(folder, manifest)
            watcher.note("comparing every file with its checksum")
            found = list(changed_files(folder, manifest))
        except FileNotFoundError as error:
            if Manifest.read(folder).generation != manifest.generation:
                continue
            return [f"'{error.filename}' is missing"]
        except Damaged as error:
            return [str(error)]
        break
    for one in contents.segments:
        if not (np.diff(one.rows.ids) > 0).all():
            found.append(f"the ids of segment {one.note.name} are not ascending")
    if not (np.diff(contents.ids) > 0).all():
        found.append("an id occurs twice")
    return found
