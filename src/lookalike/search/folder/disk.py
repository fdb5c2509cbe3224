"""What the files of a folder index share: checksums, locks, mapping, one sentence for damage."""

import os
import stat
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from lookalike.errors import BadInput, LookalikeError
from lookalike.files import locked, naming, open_regular, refuse_links

LOCK_SECONDS = 30.0
COMPACTION_SECONDS = 2.0
CHUNK = 1 << 20

SEGMENT_FILES = (
    "vectors.npy",
    "ids.npy",
    "keys.npy",
    "items.arrow",
    "ann.faiss",
    "cells.npy",
)
"""All that a segment may hold; a test compares it with what is written."""
WRITE_LOCK = ".lock"
COMPACTION_LOCK = ".compact.lock"


class FileNote(BaseModel):
    """The size of a file, and the CRC-32 of its content."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    size: Annotated[int, Field(ge=0)]
    crc: int

    @classmethod
    def of(cls, path: Path) -> "FileNote":
        """The note of a file as it is."""
        crc = 0
        with open_regular(path) as file:
            while chunk := file.read(CHUNK):
                crc = zlib.crc32(chunk, crc)
        return cls(size=path.stat().st_size, crc=crc)

    def refuse_size(self, folder: Path, path: Path) -> None:
        """Refuse the index if the file does not have its size; nothing else is opened."""
        status = path.stat()
        if not stat.S_ISREG(status.st_mode) or status.st_size != self.size:
            raise damaged(folder, f"{path.name} does not have {self.size} bytes")

    def refuse_content(self, folder: Path, path: Path) -> None:
        """Refuse the index if the file has changed by a single bit."""
        if FileNote.of(path) != self:
            raise damaged(folder, f"the content of {path.name} has changed")


class Damaged(BadInput):
    """The files of an index are not as they were written."""


def damaged(folder: Path, reason: str) -> Damaged:
    """The error for an index that cannot be trusted."""
    return Damaged(f"the index '{folder}' is damaged: {reason}; make it again")


def mapped(path: Path, shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
    """An array in a file, which must have this shape; writing to it changes no file."""
    try:
        mode: Any = "c" if 0 not in shape else None
        array: Any = np.load(path, mmap_mode=mode, allow_pickle=False)
    except OSError:
        raise
    except EOFError as error:
        raise ValueError(f"{path.name} is cut off") from error
    except Exception as error:  # NumPy raises almost any exception for a forged header
        raise ValueError(f"{path.name} cannot be read") from error
    if not isinstance(array, np.ndarray):
        raise ValueError(f"{path.name} is an archive")
    if array.shape != shape or array.dtype != dtype:
        raise ValueError(f"{path.name} is {array.dtype} {array.shape}, not {shape}")
    return array


def allocated(path: Path, dtype: Any, shape: tuple[int, ...]) -> Any:
    """An array in a new file whose space is reserved: a full disk is an error here, not later."""
    array = np.lib.format.open_memmap(path, "w+", np.dtype(dtype), shape)
    if hasattr(os, "posix_fallocate"):  # macOS has none
        with path.open("r+b") as file:
            os.posix_fallocate(file.fileno(), 0, path.stat().st_size)
    return array


def fsync(path: Path) -> None:
    """Wait until a file or folder has reached the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def fsync_and_checksum(folder: Path) -> dict[str, FileNote]:
    """Wait until every file of a folder has reached the disk; return their notes."""
    paths = sorted(folder.iterdir())
    notes = {path.name: FileNote.of(path) for path in paths}
    for path in (*paths, folder, folder.parent):
        fsync(path)
    return notes


def remove_segment(home: Path) -> None:
    """Delete a segment: the files that segments have, and the folder if no other is in it."""
    for name in SEGMENT_FILES:
        (home / name).unlink(missing_ok=True)
    with suppress(OSError):
        home.rmdir()


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
