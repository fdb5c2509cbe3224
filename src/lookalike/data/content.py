"""Digests of the content of image files, cached: a data set is known by every byte of it."""

import hashlib
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lookalike.data.cache import Progress, cache_folder
from lookalike.data.image_set import UnreadableImage, digest
from lookalike.data.parallel import in_threads
from lookalike.files import atomically, open_regular

__all__ = ["FileDigests", "file_digests", "item_digests", "told_progress"]

BYTES = 16
RECENT_NS = 2_000_000_000
"""A file that was written so shortly before may be written again without a new time."""
_progress: ContextVar[Progress | None] = ContextVar("progress", default=None)
_rehash: ContextVar[bool] = ContextVar("rehash", default=False)


@contextmanager
def told_progress(progress: Progress | None, rehash: bool = False) -> Iterator[None]:
    """Call ``progress`` with the files read so far, and all, while data sets are loaded.

    ``rehash`` reads every file again, whatever the cache has.
    """
    tokens = _progress.set(progress), _rehash.set(rehash)
    try:
        yield
    finally:
        _progress.reset(tokens[0])
        _rehash.reset(tokens[1])


class FileDigests(NamedTuple):
    """What is known of some files: size, time of writing, inode, and a digest of every byte.

    Attributes:
        status: Size, time in nanoseconds and inode of each, [N, 3]; -1 where there is no file.
        digests: The BLAKE2b digest of each, [N, 16]; zeros where there is no regular file.
    """

    status: NDArray[np.int64]
    digests: NDArray[np.uint8]


def file_digests(folder: Path, files: Sequence[str]) -> FileDigests:
    """The digests of files, from the cache where size, time and inode are as they were.

    Args:
        folder: What ``files`` are relative to.
        files: Their names.

    Returns:
        One row per file.
    """
    names = "\n".join(files)
    path = cache_folder() / f"digests-{digest(str(folder.resolve()), names)}.npz"
    found = FileDigests(_status(folder, files), np.zeros((len(files), BYTES), np.uint8))
    same = np.zeros(len(files), bool)
    if not _rehash.get() and (cached := _cached(path, len(files))) is not None:
        same = (cached.status == found.status).all(axis=1)
        found.digests[same] = cached.digests[same]
    missing = np.flatnonzero(~same & (found.status[:, 0] >= 0))
    if not len(missing):
        return found
    progress = _progress.get()
    read = in_threads(lambda index: _digest_of(folder / files[index]), missing.tolist())
    for number, (index, content) in enumerate(zip(missing, read, strict=True), 1):
        found.digests[index] = np.frombuffer(content, np.uint8)
        if progress is not None and (number % 100 == 0 or number == len(missing)):
            progress(number, len(missing))
    stored = found.status.copy()
    stored[found.status[:, 1] > time.time_ns() - RECENT_NS] = -2  # read again next time
    with atomically(path) as draft, draft.open("wb") as file:
        np.savez(file, status=stored, digests=found.digests)
    return found


def item_digests(read: Callable[[int], Any], count: int) -> str:
    """A hash of every item of a data set that has no files; one that cannot be read by its error.

    Args:
        read: From the index of an item to its bytes, or to an array.
        count: How many there are.
    """
    found, progress = [], _progress.get()
    for index in range(count):
        try:
            item = read(index)
            found.append(digest(item) if isinstance(item, bytes) else digest(str(item.shape), item))
        except (UnreadableImage, OSError) as error:
            found.append(digest(type(error).__name__))
        if progress is not None and ((index + 1) % 100 == 0 or index + 1 == count):
            progress(index + 1, count)
    return digest(*found)


def _status(folder: Path, files: Sequence[str]) -> NDArray[np.int64]:
    rows = np.full((len(files), 3), -1, np.int64)
    prefix = os.path.join(folder, "")
    for index, file in enumerate(files):
        try:
            one = os.stat(prefix + file if not os.path.isabs(file) else file)
        except (OSError, ValueError):  # decoding will report it
            continue
        rows[index] = one.st_size, one.st_mtime_ns, one.st_ino & (2**63 - 1)
    return rows


def _cached(path: Path, count: int) -> FileDigests | None:
    try:
        with np.load(path, allow_pickle=False) as kept:
            status, digests = kept["status"], kept["digests"]
    except (OSError, ValueError, KeyError, EOFError):
        return None
    fits = status.shape == (count, 3) and digests.shape == (count, BYTES)
    return FileDigests(status, digests) if fits and digests.dtype == np.uint8 else None


def _digest_of(path: Path) -> bytes:
    content = hashlib.blake2b(digest_size=BYTES)
    try:
        with open_regular(path) as file:
            while block := file.read(1 << 20):
                content.update(block)
    except OSError:  # decoding will report it
        return bytes(BYTES)
    return content.digest()
