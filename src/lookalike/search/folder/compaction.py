"""Merging segments by rule, beside readers and other writers.

The smaller half of the segments is merged when there are more than sixteen, those without fast
search when they have enough pictures for one, a segment by itself when more than a fifth of it was
removed, and all when the collection has outgrown the quantiser. Merging needs no write lock; that
is held only while the manifest is replaced. A killed compaction leaves files that no manifest
names, and the next writer removes them.
"""

import time

import numpy as np

from lookalike.progress import Watcher
from lookalike.search.folder import cells, disk
from lookalike.search.folder.cells import Quantiser
from lookalike.search.folder.log import extend_log, read_log
from lookalike.search.folder.manifest import LogNote, Manifest, SegmentNote, mark_of
from lookalike.search.folder.merging import Merge, merge
from lookalike.search.folder.selection import Selection
from lookalike.search.folder.snapshot import Snapshot
from lookalike.search.folder.writer import MERGED, QUANTISER, remove_unused

MOST = 16
"""Segments; of more the smaller half is merged, so that a picture is copied a few times only."""
CROWDED = 64
"""Segments after which also a long ingest pauses to merge some."""
REMOVED = 0.2
PER_CELL = 64


def compact(snapshot: Snapshot, watcher: Watcher, everything: bool = False) -> Snapshot:
    """Merge what the rules say, or ``everything``; return the newest state.

    The lock of compaction must be held.
    """
    folder = snapshot.folder
    snapshot = Snapshot.open(folder, snapshot)
    while True:
        chosen = plan(snapshot, everything)
        if not chosen:
            return snapshot
        snapshot = _merge(snapshot, [snapshot.selections()[at] for at in chosen], watcher)
        everything = False


def plan(snapshot: Snapshot, everything: bool = False) -> list[int]:
    """The numbers of the segments to merge next."""
    notes = [segment.note for segment in snapshot.segments]
    left = [selection.count for selection in snapshot.selections()]
    every = list(range(len(notes)))
    outgrown = needs_training(snapshot.manifest)
    changed = any(left[at] < notes[at].count for at in every)
    if everything and (len(notes) > 1 or changed):
        return every
    if outgrown and any(note.fast or note.refused for note in notes):
        return every
    newest = snapshot.manifest.quantisers[-1].file if snapshot.manifest.quantisers else None
    slow = [
        at
        for at in every
        if not notes[at].fast and (notes[at].refused is None or notes[at].refused != newest)
    ]
    if sum(left[at] for at in slow) >= cells.EXACT_BELOW:
        return slow
    if len(every) > MOST:
        return sorted(sorted(every, key=left.__getitem__)[: len(every) // 2])
    for at in every:
        if notes[at].count - left[at] > REMOVED * notes[at].count:
            return [at]
    return []


def needs_training(manifest: Manifest) -> bool:
    """Whether there is no quantiser, or the collection has outgrown it."""
    if not manifest.quantisers:
        return True
    return manifest.count >= cells.GROWTH * manifest.quantisers[-1].trained_on


def _merge(snapshot: Snapshot, sources: list[Selection], watcher: Watcher) -> Snapshot:
    """Write the merged segment, then put it in the place of its sources."""
    folder, manifest = snapshot.folder, snapshot.manifest
    note: SegmentNote | None = None
    quantiser: Quantiser | None = None
    filled = [one for one in sources if one.count]
    if filled:
        work = Merge.of(filled)
        watcher.note(f"merging {len(work):,} pictures of {len(filled)} segments")
        if len(work) >= cells.EXACT_BELOW:
            quantiser = _quantiser(snapshot, work, watcher)
        name = f"{MERGED}{manifest.generation:06d}"
        note = merge(folder, name, work, manifest.dim, manifest.vectors, quantiser, watcher)
    with disk.writing(folder):
        newest = Snapshot.open(folder, snapshot)
        following = _swapped(newest.manifest, sources, note, quantiser)
        if newest.manifest.removed is not None:
            log = _remaining(newest, sources)
            following = following.model_copy(update={"removed": log})
        following.write(folder)
        remove_unused(folder, following, compactor=True)
        snapshot = Snapshot(folder, following, newest)
        snapshot.mark = mark_of(folder)
    if note is not None and note.fast is not None:
        watcher.note(f"search: {following.approximation}")
    return snapshot


def _quantiser(snapshot: Snapshot, work: Merge, watcher: Watcher) -> Quantiser:
    """The newest quantiser, or a new one where the collection has outgrown it."""
    manifest = snapshot.manifest
    if not needs_training(manifest):
        return snapshot.quantisers[manifest.quantisers[-1].file]
    count = len(work)
    watcher.note(f"training {cells.cells_for(count):,} cells")
    _, sample = work.sample(PER_CELL * cells.cells_for(count), manifest.dim, seed=0)
    path = snapshot.folder / f"{QUANTISER}{manifest.generation:06d}.faiss"
    note = cells.train(path, sample, manifest.vectors, count)
    return cells.load(path, note, manifest.dim, manifest.vectors)


def _swapped(
    newest: Manifest,
    sources: list[Selection],
    merged: SegmentNote | None,
    quantiser: Quantiser | None,
) -> Manifest:
    """The newest manifest with a merged segment in the place of its sources."""
    gone = {one.segment.note.name for one in sources}
    segments = [segment for segment in newest.segments if segment.name not in gone]
    segments += [merged] if merged else []
    segments.sort(key=lambda segment: segment.first)
    used = {segment.refused for segment in segments}
    used |= {segment.fast.quantiser for segment in segments if segment.fast}
    known = {one.file: one for one in newest.quantisers}
    if quantiser is not None:
        known[quantiser.note.file] = quantiser.note
    return newest.model_copy(
        update={
            "generation": newest.generation + 1,
            "updated": time.time(),
            "segments": tuple(segments),
            "quantisers": tuple(note for file, note in known.items() if file in used),
        }
    )


def _remaining(newest: Snapshot, sources: list[Selection]) -> LogNote | None:
    """The tombstones of pictures that are still in a segment."""
    done = [
        one.segment.ids_at(np.setdiff1d(np.arange(len(one.segment)), one.rows))
        for one in sources
        if one.rows is not None
    ]
    if not done:
        return newest.manifest.removed
    log = read_log(newest.folder, newest.manifest.removed)
    left = log[~np.isin(log, np.concatenate(done))]
    if not len(left):
        return None
    return extend_log(newest.folder, newest.manifest.model_copy(update={"removed": None}), left)
