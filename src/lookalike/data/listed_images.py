"""A list of images as an ImageSet, which is known by every byte of them; digests are cached."""

import hashlib
import io
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from lookalike.data.cache import Progress, cache_folder
from lookalike.data.image_files import read_image
from lookalike.data.image_set import ImageSet, UnreadableImage, digest
from lookalike.data.listing import Listing, Locate
from lookalike.data.parallel import in_threads
from lookalike.errors import BadInput
from lookalike.files import atomically, open_regular

__all__ = ["Mask", "from_listing", "told_progress"]

Item = TypeVar("Item")
Mask = NDArray[np.bool_] | None
BYTES = 16
RECENT_NS = 2_000_000_000
"""A file that was written so shortly before may be written again without a new time."""
_progress: ContextVar[Progress | None] = ContextVar("progress", default=None)
_rehash: ContextVar[bool] = ContextVar("rehash", default=False)


def from_listing(
    name: str,
    listing: Listing,
    labels: NDArray[np.int64],
    class_names: Sequence[str],
    test: NDArray[np.bool_],
    *,
    query: Mask = None,
    gallery: Mask = None,
    validation: Mask = None,
    upright: bool = True,
    has_split: bool = True,
) -> ImageSet:
    """An ImageSet of listed images; nothing is decoded.

    Args:
        name: The data set.
        listing: The images. What is not in files is read once, to know its content.
        labels: The class of each.
        class_names: The name of each class.
        test: As ``query``, ``gallery``, ``validation`` and ``has_split`` those of the ImageSet.
        query: See there.
        gallery: See there.
        validation: See there.
        upright: Whether the orientation of EXIF data is applied.
        has_split: See there.

    Returns:
        The images.
    """
    names = tuple(listing.names)
    masks = [mask for mask in (test, query, gallery, validation) if mask is not None]
    times, content = np.zeros(0, np.int64), np.zeros((0, BYTES), np.uint8)
    if listing.files:
        status, content = file_digests(listing.root, list(dict.fromkeys(listing.files)))
        times = status[:, 1]
    else:
        content = item_digests(listing.locate, len(listing))
    fingerprint = digest(name, "\n".join(names), "\n".join(class_names), content, labels, *masks)
    return ImageSet(
        name=name,
        files=names,
        labels=labels,
        class_names=tuple(class_names),
        test=test,
        query=query,
        gallery=gallery,
        decode=partial(_decode, listing.locate, names, upright),
        fingerprint=fingerprint,
        stamp=digest(fingerprint, str(upright), digest(str(listing.root.resolve()), times)),
        validation=validation,
        encoded=partial(_encoded, listing.locate),
        has_split=has_split,
    )


def _decode(locate: Locate, names: Sequence[str], upright: bool, index: int) -> NDArray[np.uint8]:
    try:
        found = locate(index)
    except (MemoryError, BadInput):
        raise
    except Exception as error:  # a file that it names is gone, or a user's code raises anything
        reason = f"{type(error).__name__}: {error}".partition("\n")[0]
        raise UnreadableImage(names[index], reason) from error
    if isinstance(found, np.ndarray):
        return found
    source = io.BytesIO(found) if isinstance(found, bytes) else found
    return read_image(source, names[index], upright)


def _encoded(locate: Locate, index: int) -> bytes | None:
    found = locate(index)
    if not isinstance(found, Path):
        return found if isinstance(found, bytes) else None
    with open_regular(found) as file:
        return file.readall()


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


def file_digests(root: Path, files: Sequence[str]) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """What is known of files, from the cache where size, time and inode are as they were.

    Args:
        root: The folder of the data set.
        files: The files.

    Returns:
        Size, time of writing in nanoseconds and inode of each, [N, 3], -1 where there is no file;
        and the BLAKE2b digest of each, [N, 16], zeros where there is no regular file.
    """
    path = cache_folder() / f"digests-{digest(str(root.resolve()), *files)}.npz"
    status, digests = _status(files), np.zeros((len(files), BYTES), np.uint8)
    same = np.zeros(len(files), bool)
    if not _rehash.get():
        try:
            with np.load(path, allow_pickle=False) as cached:
                same = (cached["status"] == status).all(axis=1)
                digests[same] = cached["digests"][same]
        except (
            OSError,
            ValueError,
            KeyError,
            IndexError,
            EOFError,
        ):  # there is none, or no whole one
            same[:] = False
    missing = np.flatnonzero(~same & (status[:, 0] >= 0)).tolist()
    if missing:
        content = _counted(
            in_threads(lambda index: _digest_of(files[index]), missing), len(missing)
        )
        for index, one in zip(missing, content, strict=True):
            digests[index] = np.frombuffer(one, np.uint8)
        stored = status.copy()
        stored[status[:, 1] > time.time_ns() - RECENT_NS] = -2  # read again next time
        with atomically(path) as draft, draft.open("wb") as file:
            np.savez(file, status=stored, digests=digests)
    return status, digests


def item_digests(locate: Locate, count: int) -> NDArray[np.uint8]:
    """The digest of every item of a data set without files; of one that fails, that of its error.

    Args:
        locate: From the index of an item to its bytes, or to an array.
        count: How many there are.

    Returns:
        The digests [count, 16].
    """

    def one(index: int) -> str:
        try:
            item = locate(index)
        except BadInput:
            raise
        except Exception as error:  # a user's code raises anything
            return digest(type(error).__name__)
        if isinstance(item, np.ndarray):
            return digest(str(item.shape), item)
        return digest(item if isinstance(item, bytes) else str(item))

    found = b"".join(bytes.fromhex(one) for one in _counted(in_threads(one, range(count)), count))
    return np.frombuffer(found, np.uint8).reshape(count, BYTES)


def _counted(items: Iterator[Item], count: int) -> Iterator[Item]:
    """The items, while whoever waits is told how many there were."""
    progress = _progress.get()
    for number, item in enumerate(items, 1):
        if progress is not None and (number % 100 == 0 or number == count):
            progress(number, count)
        yield item


def _status(files: Sequence[str]) -> NDArray[np.int64]:
    rows = np.full((len(files), 3), -1, np.int64)
    for index, file in enumerate(files):
        try:
            one = os.stat(file)
        except (OSError, ValueError):  # decoding will report it
            continue
        rows[index] = one.st_size, one.st_mtime_ns, one.st_ino & (2**63 - 1)
    return rows


def _digest_of(file: str) -> bytes:
    content = hashlib.blake2b(digest_size=BYTES)
    try:
        with open_regular(file) as opened:
            while block := opened.read(1 << 20):
                content.update(block)
    except OSError:  # decoding will report it
        return bytes(BYTES)
    return content.digest()
