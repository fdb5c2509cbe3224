"""Tombstones: the ids of removed pictures, appended to a file of which the start is valid."""

import os
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lookalike.files import open_regular
from lookalike.search.folder.disk import damaged, fsync
from lookalike.search.folder.manifest import LogNote, Manifest

LOG = "removed-"

Ints = NDArray[np.int64]


def read_log(folder: Path, note: LogNote | None, known: LogNote | None = None) -> Ints:
    """The tombstones, but those that are ``known``; a damaged file is refused."""
    if note is None:
        return np.empty(0, np.int64)
    start, crc = (known.entries, known.crc) if known else (0, 0)
    with open_regular(folder / note.file) as file:
        if os.fstat(file.fileno()).st_size < 8 * note.entries:
            raise damaged(folder, f"{note.file} is cut off")
        file.seek(8 * start)
        data = file.read(8 * (note.entries - start))
    if len(data) != 8 * (note.entries - start) or zlib.crc32(data, crc) != note.crc:
        raise damaged(folder, f"the content of {note.file} has changed")
    return np.frombuffer(data, "<i8").astype(np.int64)


def extend_log(folder: Path, former: Manifest, ids: Ints) -> LogNote:
    """Append tombstones after the valid ones."""
    note = former.removed or LogNote(file=f"{LOG}{former.generation + 1:06d}.log", entries=0, crc=0)
    data = ids.astype("<i8").tobytes()
    path = folder / note.file
    with path.open("r+b" if path.exists() else "w+b") as file:
        file.seek(8 * note.entries)
        file.write(data)
        file.truncate()  # what a killed writer left
    fsync(path)
    return LogNote(file=note.file, entries=note.entries + len(ids), crc=zlib.crc32(data, note.crc))
