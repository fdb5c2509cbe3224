"""An ImageSet of encoded images (JPEG, PNG, ...) that lie inside larger files."""

import io
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lookalike.data.image_files import read_image
from lookalike.data.image_set import ImageSet, UnreadableImage, digest
from lookalike.errors import BadInput

__all__ = ["from_encoded", "halves"]

_SPLITS = ("train", "val", "test")


def from_encoded(
    name: str,
    files: Sequence[str],
    labels: Sequence[Any],
    splits: Sequence[str] | None,
    read: Callable[[int], bytes],
    content: str,
    place: str,
    class_names: Sequence[str] | None = None,
) -> ImageSet:
    """The images whose bytes ``read`` returns.

    Args:
        name: The data set.
        files: A name for each image, for messages.
        labels: The class of each: numbers, or names.
        splits: ``train``, ``val`` or ``test`` of each; None: half of the classes tests.
        read: From the index of an image to its bytes.
        content: What changes with the images, and is the same on every machine.
        place: What changes when the files are written again.
        class_names: The names of the classes 0, 1, ...; None: those of ``labels``, sorted.

    Returns:
        The data set.
    """
    for label in labels:
        if (
            not isinstance(label, str | int | float | np.integer) or label != label
        ):  # NaN is no class
            given = str(label)[:80]
            raise BadInput(f"'{name}': a class must be a name or a number, not '{given}'")
    values, indices = np.unique(np.asarray(labels), return_inverse=True)
    numbers = indices.reshape(-1).astype(np.int64)
    names = [str(value) for value in values]
    if class_names is not None:
        numbers, names = np.asarray(labels, np.int64), list(class_names)
    test, validation = halves(name, numbers, len(names), splits)
    masks = [mask for mask in (test, validation) if mask is not None]
    fingerprint = digest(name, "\n".join(files), "\n".join(names), content, numbers, *masks)
    return ImageSet(
        name=name,
        files=tuple(files),
        labels=numbers,
        class_names=tuple(names),
        test=test,
        decode=partial(_decode, read, tuple(files)),
        fingerprint=fingerprint,
        stamp=digest(fingerprint, place),
        validation=validation,
        encoded=read,
        has_split=splits is not None,
    )


def halves(
    name: str, labels: NDArray[np.int64], classes: int, splits: Sequence[str] | None
) -> tuple[NDArray[np.bool_], NDArray[np.bool_] | None]:
    """The masks of the test images and, if some are marked so, of the validation images."""
    if splits is None:
        return labels >= (classes + 1) // 2, None
    for mark in splits:
        if not isinstance(mark, str) or mark not in _SPLITS:
            given = str(mark)[:80]
            raise BadInput(f"'{name}': split must be train, val or test, not '{given}'")
    marks = np.asarray(splits)
    validation = marks == "val"
    return marks == "test", validation if validation.any() else None


def _decode(read: Callable[[int], bytes], files: Sequence[str], index: int) -> NDArray[np.uint8]:
    try:
        data = read(index)
    except MemoryError:
        raise
    except Exception as error:  # a file that it names is gone, or there is no image
        reason = f"{type(error).__name__}: {error}".partition("\n")[0]
        raise UnreadableImage(files[index], reason) from error
    return read_image(io.BytesIO(data), files[index], upright=True)
