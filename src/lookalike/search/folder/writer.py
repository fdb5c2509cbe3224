"""Adding and removing: a segment of the new pictures, tombstones for the others.

What a commit costs grows with what is added and removed, not with what is there.
"""

import re
import time
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np

from lookalike.inference.encoder import Vectors
from lookalike.search.folder.disk import compacting, remove_segment
from lookalike.search.folder.log import LOG, extend_log
from lookalike.search.folder.manifest import SEGMENTS, Manifest
from lookalike.search.folder.segment import write_new
from lookalike.search.folder.snapshot import Snapshot
from lookalike.search.items import Record

QUANTISER = "quantiser-"
MERGED = "m"
"""Segments of a compaction, which writes without the lock, begin with this letter."""
OURS = re.compile(
    rf"[s{MERGED}]\d{{6,}}|{LOG}\d{{6,}}\.log|{QUANTISER}\d{{6,}}\.faiss|\.index\.json\..{{8}}"
)
"""The names that writers give; nothing else is ever removed."""


def append(
    newest: Snapshot,
    records: Sequence[Record],
    vectors: Vectors,
    dropped: Iterable[int],
) -> Manifest:
    """Write new pictures and tombstones; return the manifest that makes them valid.

    The write lock must be held. A record whose folder and path are in the index replaces that
    picture.
    """
    folder, former = newest.folder, newest.manifest
    unique = {record.key: row for row, record in enumerate(records)}
    rows = list(unique.values())
    kept = [records[row] for row in rows]
    if len(rows) != len(records):
        vectors = vectors[rows]
    gone = np.fromiter(dropped, np.int64)
    gone = gone[newest.locate(gone)[0] >= 0]
    replaced = [id for _, id in newest.lookup(list(unique))]
    values: dict[str, Any] = {
        "generation": former.generation + 1,
        "updated": time.time(),
        "next_id": former.next_id + len(kept),
    }
    if kept:
        name = f"s{former.next_name:06d}"
        note = write_new(folder, name, kept, vectors, former.next_id, former.vectors)
        values["segments"] = (*former.segments, note)
        values["next_name"] = former.next_name + 1
    tombstones = np.unique(np.concatenate([gone, np.array(replaced, np.int64)]))
    if len(tombstones):
        values["removed"] = extend_log(folder, former, tombstones)
    return former.model_copy(update=values)


def remove_unused(folder: Path, manifest: Manifest, compactor: bool = False) -> None:
    """Delete what no valid file refers to, except the work of a compaction that still runs.

    The write lock must be held; ``compactor`` holds the lock of compaction, too.
    """
    used = {segment.name for segment in manifest.segments}
    used |= {quantiser.file for quantiser in manifest.quantisers}
    used |= {manifest.removed.file} if manifest.removed else set()
    stale = [
        path
        for path in (*folder.iterdir(), *(folder / SEGMENTS).iterdir())
        if OURS.fullmatch(path.name) and path.name not in used
    ]
    merged = [path for path in stale if path.name.startswith((MERGED, QUANTISER))]
    for path in stale:
        if path not in merged:
            _remove(path)
    if not merged:
        return
    with nullcontext(True) if compactor else compacting(folder, 0.0) as mine:
        if mine:
            for path in merged:
                _remove(path)


def _remove(path: Path) -> None:
    """Delete a file of the index, or a segment."""
    if path.parent.name == SEGMENTS:
        remove_segment(path)
    elif path.is_file():
        path.unlink(missing_ok=True)
