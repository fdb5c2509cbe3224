"""A data set before decoding: file names, classes, the official halves."""

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from lookalike.errors import BadInput, LookalikeError

__all__ = ["ImageSet", "UnreadableImage", "digest", "refuse_unreadable"]

Read = TypeVar("Read")

_COLUMNS = ("labels", "test", "query", "gallery", "super_labels", "validation")
"""The arrays of an ImageSet with one entry per image."""


class UnreadableImage(LookalikeError):
    """An image, ``file``, that cannot be decoded, with the ``reason``."""

    def __init__(self, file: str, reason: str) -> None:
        super().__init__(f"cannot read the image '{file}': {reason}")
        self.file = file
        self.reason = reason

    def __reduce__(self) -> tuple[Any, ...]:
        return UnreadableImage, (self.file, self.reason)


@dataclass(frozen=True, eq=False)
class ImageSet:
    """Images with one class index per image; ``decode`` returns their pixels.

    Attributes:
        name: The data set.
        files: The name of each image.
        labels: The class of each image, from 0, in the official order of the classes.
        class_names: The name of each class.
        test: The mask of the test half.
        query: The mask of the queries in the test half, if the data set defines them.
        gallery: The mask of the gallery in the test half, if the data set defines it.
        decode: From the index of an image to its pixels [H, W, C].
        encoded: From the index of an image to the bytes of its file; None where it has none.
        fingerprint: A hash of names, content, labels and halves: equal on every machine.
        stamp: A hash that also changes when a file is written again; names caches.
        unreadable: Images that were left out.
        super_labels: The super-class of each image, if there are any.
        validation: The mask of the images, outside of the test half, whose classes validate; None:
            the protocol draws them.
        has_split: Whether the data set itself says which images test; if not, ``test`` marks the
            second half of the classes, and a protocol may draw others.
    """

    name: str
    files: tuple[str, ...]
    labels: NDArray[np.int64]
    class_names: tuple[str, ...]
    test: NDArray[np.bool_]
    decode: Callable[[int], NDArray[np.uint8]]
    fingerprint: str
    stamp: str
    query: NDArray[np.bool_] | None = None
    gallery: NDArray[np.bool_] | None = None
    unreadable: tuple[str, ...] = ()
    super_labels: NDArray[np.int64] | None = None
    validation: NDArray[np.bool_] | None = None
    encoded: Callable[[int], bytes | None] | None = None
    has_split: bool = True

    def __post_init__(self) -> None:
        count, columns = len(self.files), [getattr(self, name) for name in _COLUMNS]
        if any(values is not None and values.shape != (count,) for values in columns):
            raise ValueError(f"'{self.name}': labels and masks need one entry for each file")
        if count and not 0 <= self.labels.min() <= self.labels.max() < len(self.class_names):
            raise ValueError(f"'{self.name}': labels must lie in 0..{len(self.class_names) - 1}")

    def __len__(self) -> int:
        return len(self.files)

    def without(self, dropped: Iterable[int]) -> "ImageSet":
        """The same data set with some images left out and named in ``unreadable``.

        Class indices do not change, so a class may have no image left.
        """
        gone = sorted(set(dropped))
        if not gone:
            return self
        keep = np.delete(np.arange(len(self)), gone)
        names = tuple(self.files[i] for i in gone)
        columns = {name: getattr(self, name) for name in _COLUMNS}
        return replace(
            self,
            files=tuple(self.files[i] for i in keep),
            decode=partial(_of_kept, self.decode, keep),
            encoded=None if self.encoded is None else partial(_of_kept, self.encoded, keep),
            fingerprint=digest(self.fingerprint, *names),
            stamp=digest(self.stamp, *names),
            unreadable=self.unreadable + names,
            **{name: values[keep] for name, values in columns.items() if values is not None},
        )


def _of_kept(read: Callable[[int], Read], kept: NDArray[np.int64], index: int) -> Read:
    return read(int(kept[index]))


def digest(*parts: str | bytes | NDArray[Any]) -> str:
    """A short hash of texts and arrays, in order, with the boundaries between them.

    Raises:
        BadInput: A text, such as the name of a file, cannot be encoded as UTF-8.
    """
    whole = hashlib.blake2b(digest_size=16)
    for part in parts:
        if isinstance(part, str):
            try:
                part = part.encode()
            except UnicodeEncodeError:
                raise BadInput(f"the name {part!a} is not UTF-8; give it another") from None
        data = part if isinstance(part, bytes) else part.tobytes()
        whole.update(len(data).to_bytes(8, "little"))
        whole.update(data)
    return whole.hexdigest()


def refuse_unreadable(name: str, found: list[UnreadableImage]) -> BadInput:
    """The error that stops a run: the first ten images that cannot be read, and their number."""
    shown = ", ".join(f"{bad.file} ({bad.reason})" for bad in found[:10])
    more = f" and {len(found) - 10} more" if len(found) > 10 else ""
    images = "1 image" if len(found) == 1 else f"{len(found)} images"
    return BadInput(
        f"{images} of '{name}' cannot be read: {shown}{more}; "
        "fix or remove them, or set data.skip_unreadable=true"
    )
