"""The one door to an ImageSet of encoded images: JPEG, PNG, ..., in files or inside larger ones.

Each reader (folder, csv, parquet, webdataset, huggingface, the official data sets) lists names and
classes, and says where the image of an index is.
"""

import io
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lookalike.data.content import file_digests
from lookalike.data.image_files import read_image
from lookalike.data.image_set import ImageSet, UnreadableImage, digest
from lookalike.errors import BadInput
from lookalike.files import open_regular

__all__ = ["content_of", "from_encoded", "from_files", "halves", "list_images"]

SPLITS = ("train", "val", "test")
Locate = Callable[[int], Path | bytes]
"""From the index of an image to its file, or to the bytes of one."""
Mask = NDArray[np.bool_] | None


def list_images(
    name: str,
    files: Sequence[str],
    labels: NDArray[np.int64],
    class_names: Sequence[str],
    locate: Locate,
    content: str | NDArray[np.uint8],
    written: str,
    test: NDArray[np.bool_],
    *,
    query: Mask = None,
    gallery: Mask = None,
    validation: Mask = None,
    upright: bool = True,
    has_split: bool = True,
) -> ImageSet:
    """An ImageSet; nothing is decoded.

    Args:
        name: The data set.
        files: A name for each image, for messages.
        labels: The class of each.
        class_names: The name of each class.
        locate: Where each image is.
        content: What changes with the images, and is the same on every machine.
        written: What changes when the files are written again.
        test: As ``query``, ``gallery``, ``validation`` and ``has_split`` those of the ImageSet.
        query: See there.
        gallery: See there.
        validation: See there.
        upright: Whether the orientation of EXIF data is applied; the published results on the
            official data sets were made without.
        has_split: See there.

    Returns:
        The images.
    """
    files = tuple(files)
    masks = [mask for mask in (test, query, gallery, validation) if mask is not None]
    fingerprint = digest(name, "\n".join(files), "\n".join(class_names), content, labels, *masks)
    return ImageSet(
        name=name,
        files=files,
        labels=labels,
        class_names=tuple(class_names),
        test=test,
        query=query,
        gallery=gallery,
        decode=partial(_decode, locate, files, upright),
        fingerprint=fingerprint,
        stamp=digest(fingerprint, str(upright), written),
        validation=validation,
        encoded=partial(_encoded, locate),
        has_split=has_split,
    )


def from_files(
    name: str,
    folder: Path,
    files: Sequence[str],
    labels: NDArray[np.int64],
    class_names: Sequence[str],
    test: NDArray[np.bool_],
    query: Mask = None,
    gallery: Mask = None,
    upright: bool = False,
    validation: Mask = None,
    has_split: bool = True,
) -> ImageSet:
    """The images in ``files``, which are relative to ``folder``; the rest is as above."""
    known = file_digests(folder, files)
    return list_images(
        name,
        files,
        labels,
        class_names,
        partial(_path, folder, tuple(files)),
        known.digests,
        digest(str(folder.resolve()), known.status[:, 1]),
        test,
        query=query,
        gallery=gallery,
        validation=validation,
        upright=upright,
        has_split=has_split,
    )


def from_encoded(
    name: str,
    files: Sequence[str],
    labels: Sequence[Any],
    splits: Sequence[str] | None,
    read: Callable[[int], bytes],
    content: str,
    written: str,
    class_names: Sequence[str] | None = None,
) -> ImageSet:
    """The images whose bytes ``read`` returns; the rest is as above.

    Args:
        name: The data set.
        files: A name for each image, for messages.
        labels: The class of each: numbers, or names.
        splits: ``train``, ``val`` or ``test`` of each; None: half of the classes tests.
        read: From the index of an image to its bytes.
        content: What changes with the images, and is the same on every machine.
        written: What changes when the files are written again.
        class_names: The names of the classes 0, 1, ...; None: those of ``labels``, sorted.

    Returns:
        The images.
    """
    for label in labels:
        if not isinstance(label, str | int | float | np.integer) or label != label:  # NaN
            given = str(label)[:80]
            raise BadInput(f"'{name}': a class must be a name or a number, not '{given}'")
    values, indices = np.unique(np.asarray(labels), return_inverse=True)
    numbers = indices.reshape(-1).astype(np.int64)
    names = [str(value) for value in values]
    if class_names is not None:
        numbers, names = np.asarray(labels, np.int64), list(class_names)
    test, validation = halves(name, numbers, len(names), splits)
    return list_images(
        name,
        files,
        numbers,
        names,
        read,
        content,
        written,
        test,
        validation=validation,
        has_split=splits is not None,
    )


def content_of(paths: Sequence[Path]) -> tuple[str, str]:
    """What changes with the content of archives, and what when they are written again."""
    resolved = [str(path.resolve()) for path in paths]
    known = file_digests(Path("/"), resolved)
    return digest(known.digests), digest("\n".join(resolved), known.status[:, 1])


def halves(
    name: str, labels: NDArray[np.int64], classes: int, splits: Sequence[str] | None
) -> tuple[NDArray[np.bool_], Mask]:
    """The masks of the test images and, if some are marked so, of the validation images."""
    if splits is None:
        return labels >= (classes + 1) // 2, None
    for row, mark in enumerate(splits):
        if not isinstance(mark, str) or mark not in SPLITS:
            given = str(mark)[:80]
            raise BadInput(
                f"'{name}': split must be train, val or test, not '{given}' (image {row + 1})"
            )
    marks = np.asarray(splits)
    validation = marks == "val"
    return marks == "test", validation if validation.any() else None


def _path(folder: Path, files: Sequence[str], index: int) -> Path:
    return folder / files[index]


def _decode(locate: Locate, files: Sequence[str], upright: bool, index: int) -> NDArray[np.uint8]:
    try:
        found = locate(index)
    except MemoryError:
        raise
    except Exception as error:  # a file that it names is gone, or there is no image
        reason = f"{type(error).__name__}: {error}".partition("\n")[0]
        raise UnreadableImage(files[index], reason) from error
    source = io.BytesIO(found) if isinstance(found, bytes) else found
    return read_image(source, files[index], upright)


def _encoded(locate: Locate, index: int) -> bytes:
    found = locate(index)
    if isinstance(found, bytes):
        return found
    with open_regular(found) as file:
        return file.readall()
