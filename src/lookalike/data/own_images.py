"""The user's own images: a folder, CSV, Parquet, WebDataset, Hugging Face or torch data set."""

from collections.abc import Sequence
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from lookalike.data.image_files import IMAGE_SUFFIXES, suffix_of, warn_of_other_formats
from lookalike.data.image_set import ImageSet
from lookalike.data.listed_images import Mask, from_listing
from lookalike.data.listing import (
    Listing,
    in_folder,
    list_csv,
    list_folder,
    list_parquet,
    list_webdataset,
)
from lookalike.errors import BadInput
from lookalike.files import open_regular
from lookalike.registry import DATASETS

__all__ = ["from_dataset", "from_huggingface"]

SPLITS = ("train", "val", "test")
PARTS = {"train": "train", "validation": "val", "val": "val", "test": "test"}
"""The split of each part of a dictionary of Hugging Face."""
COLUMNS = ("path", "label", "split", "query", "gallery")
MARKS = dict.fromkeys(("1", "true", "yes"), True) | dict.fromkeys(("0", "false", "no", ""), False)


@DATASETS.register("folder")
def folder(root: Path | None = None) -> ImageSet:
    """Your own images, one folder per class; half of the classes is for testing.

    Classes are the sub-folders of ``root``, sorted by name; images may be in deeper folders. Other
    files and names that begin with a dot are ignored.
    """
    root = _given("folder", root, "a folder with one sub-folder per class")
    if not root.is_dir():
        raise BadInput(f"data.root of 'folder' is no folder: {root}")
    entries = sorted(entry for entry in root.iterdir() if not entry.name.startswith("."))
    loose = [entry.name for entry in entries if entry.is_file() and _is_image(entry.name)]
    classes = [entry.name for entry in entries if entry.is_dir()]
    found = list_folder(root, classes)
    warn_of_other_formats(root, found.names)
    kept = [number for number, name in enumerate(found.names) if _is_image(name)]
    labels = [found.columns["label"][number] for number in kept]
    empty = sorted(set(classes).difference(labels))
    problems = []
    if loose:
        problems.append(
            f"{len(loose)} picture(s) outside any class folder (the first: {loose[0]}); put each "
            "into the folder of its class"
        )
    if not classes:
        problems.append("no class folders; one sub-folder per class is expected")
    if empty:
        problems.append(f"class folders without a picture: {', '.join(empty[:10])}")
    if problems:
        raise BadInput(f"{root} has " + "; and ".join(problems))
    return own_images("folder", in_folder(root, [found.names[n] for n in kept]), labels, classes)


def _is_image(name: str) -> bool:
    return suffix_of(name) in IMAGE_SUFFIXES


@DATASETS.register("csv")
def table(root: Path | None = None) -> ImageSet:
    """Your own images from a CSV with path, label and optionally split, query, gallery.

    ``root`` is the CSV file; paths are relative to its folder. ``split`` is train, val or test;
    without it half of the classes is for testing (``protocol.order``). Classes of
    ``val`` choose the epoch (``protocol.name=fixed-validation``); without any, some of the training
    classes are drawn for that. ``query`` and ``gallery`` (1 or 0, both or neither) mark the two
    parts of the test half. Other columns, such as a price, are for ``lookalike index`` and ignored
    here.
    """
    root = _given("csv", root, "a CSV file with the columns path and label")
    if not root.is_file():
        raise BadInput(f"data.root of 'csv' is no file: {root}")
    found = list_csv(root)
    for column in found.columns:
        near = get_close_matches(column.lower(), COLUMNS, n=1, cutoff=0.75)
        if column not in COLUMNS and near and near[0] not in ("path", *found.columns):
            raise BadInput(f"{root}: unknown column '{column}'; did you mean '{near[0]}'?")
    if "label" not in found.columns:
        raise BadInput(f"{root}: the column 'label' is missing")
    if not len(found):
        raise BadInput(f"{root} has no rows")
    labels = found.columns["label"]
    lines: dict[str, int] = {}
    for line, (file, label) in enumerate(zip(found.names, labels, strict=True), 2):
        if not file or not label:
            raise BadInput(f"{root}, row {line}: path and label must not be empty")
        if lines.setdefault(file, line) != line:
            raise BadInput(f"{root}, row {line}: '{file}' is there twice")
    splits = None
    if "split" in found.columns:
        splits = [mark.strip().lower() for mark in found.columns["split"]]
    query = gallery = None
    if "query" in found.columns or "gallery" in found.columns:
        for part in {"query", "gallery"}.difference(found.columns):
            raise BadInput(f"{root}: query and gallery go together; the column '{part}' is missing")
        query, gallery = (_flags(root, found, part) for part in ("query", "gallery"))
    classes = list(dict.fromkeys(labels))
    return own_images("csv", found, labels, classes, splits, query=query, gallery=gallery)


def _flags(path: Path, found: Listing, column: str) -> NDArray[np.bool_]:
    marks = [mark.strip().lower() for mark in found.columns[column]]
    for line, mark in enumerate(marks, 2):
        if mark not in MARKS:
            raise BadInput(f"{path}, row {line}: {column} must be 1 or 0, not '{mark}'")
    return np.array([MARKS[mark] for mark in marks])


@DATASETS.register("parquet")
def parquet(root: Path | None = None) -> ImageSet:
    """Your own images in Parquet: a file, or a folder of them, with the columns image and label.

    ``image`` has the bytes of a file (or a struct with ``bytes``), ``label`` a number or name, and
    ``split``, if there is one, train, val or test; without it the second half of the classes tests.
    """
    root = _given("parquet", root, "a .parquet file, or a folder of them")
    found = list_parquet(root, ["label"], ["label", "split"])
    return own_images("parquet", found, found.columns["label"], splits=found.columns.get("split"))


@DATASETS.register("webdataset")
def webdataset(root: Path | None = None) -> ImageSet:
    """Your own images in WebDataset shards: a folder of .tar files, or one of them.

    A sample is an image with a .cls or .txt file (its class) or a .json file (``label``, and
    perhaps ``split``: train, val or test). Without a split the second half of the classes tests.
    """
    root = _given("webdataset", root, "a folder of .tar files, or one of them")
    found = list_webdataset(root, ["label", "split"])
    if not len(found):
        raise BadInput(f"there is no sample with an image and a class in {root}")
    labels = [_number(label) for label in found.columns.get("label", [None] * len(found))]
    splits = found.columns.get("split", [None])
    return own_images("webdataset", found, labels, splits=splits if any(splits) else None)


def _number(label: Any) -> Any:
    """A class that is written as a number, as one."""
    text = str(label)
    return int(text) if text.isdecimal() and len(text) < 19 else label


@DATASETS.register("huggingface")
def huggingface(root: Path | None = None) -> ImageSet:
    """Your own images as a ``datasets`` folder, written by ``save_to_disk``, which has the images.

    It has the columns image and label. Of a dictionary, the parts ``train``, ``validation`` and
    ``test`` are used as such; of one part the second half of the classes tests.
    """
    import datasets

    root = _given("huggingface", root, "a folder written by save_to_disk")
    if odd := [path for path in root.rglob("*") if not (path.is_file() or path.is_dir())]:
        raise BadInput(f"'{odd[0]}' of data.root is no regular file")
    try:
        found = datasets.load_from_disk(str(root))
        for part in dict(found).values() if isinstance(found, datasets.DatasetDict) else [found]:
            part.data.table.validate(full=True)  # its buffers are read as they are
    except Exception as error:  # the library raises almost any exception for a damaged one
        raise BadInput(f"data.root of 'huggingface' is no data set on disk: {error}") from error
    return from_huggingface(found, root, names_files=False)


def from_huggingface(found: Any, root: Path = Path(), names_files: bool = True) -> ImageSet:
    """An ImageSet of a ``datasets.Dataset``, or of a ``datasets.DatasetDict``.

    Args:
        found: The data set, with the columns ``image`` and ``label``.
        root: Where it lies.
        names_files: Whether its rows may name files anywhere; one on disk has all images in it.

    Returns:
        The images.

    Raises:
        BadInput: A column or the split of a part is not as expected.
    """
    import datasets

    is_dict = isinstance(found, datasets.DatasetDict)
    names: list[str] = []
    labels: list[Any] = []
    splits: list[str] = []
    images = []
    for name, part in dict(found).items() if is_dict else [("row", found)]:
        for column in ("image", "label"):
            if column not in part.column_names:
                raise BadInput(f"the data set of Hugging Face has no column '{column}' {name}")
        if is_dict and name not in PARTS:
            raise BadInput(f"the part '{name}' is none of {', '.join(PARTS)}")
        splits += [PARTS.get(name, "")] * len(part)
        labels += part["label"]
        names += [f"{name} {row}" for row in range(len(part))]
        images.append(
            part.select_columns("image").cast_column("image", datasets.Image(decode=False))
        )
        kind = part.features["label"]
        classes = kind.names if isinstance(kind, datasets.ClassLabel) else None
    rows = datasets.concatenate_datasets(images)
    listing = Listing(root, names, [], partial(_huggingface_bytes, rows, names_files))
    if classes is not None:
        named = dict(enumerate(classes))
        labels = [named.get(label) for label in labels]
    return own_images("huggingface", listing, labels, classes, splits if is_dict else None)


def _huggingface_bytes(rows: Any, names_files: bool, index: int) -> bytes:
    value = rows[index]["image"]
    if value["bytes"] is not None:
        return bytes(value["bytes"])
    if not names_files:
        raise FileNotFoundError(f"it names the file '{value['path']}', and has no image itself")
    with open_regular(value["path"]) as file:
        return file.readall()


def from_dataset(dataset: Any, name: str) -> ImageSet:
    """An ImageSet of a torch Dataset, of a Hugging Face data set, or of anything like them.

    ``data.name=package.module:function`` may name a function of the root that returns one. Half of
    the classes is for testing (``protocol.order``).

    Args:
        dataset: A ``datasets.Dataset``, or something with a length and items (image, class), whose
            classes are in ``targets`` or else read from all items. Several threads read items.
        name: The value of ``data.name``.

    Returns:
        The images; a hash of all of them is part of the fingerprint.

    Raises:
        BadInput: It is nothing of the kind.
    """
    if type(dataset).__module__.partition(".")[0] == "datasets":
        return from_huggingface(dataset)
    try:
        given: Any = getattr(dataset, "targets", None)
        if given is None:
            given = [dataset[i][1] for i in range(len(dataset))]
        labels = np.asarray(given).tolist()
        names = [f"item {index}" for index in range(len(dataset))]
    except Exception as error:  # a user's code raises anything
        raise BadInput(
            f"the data set '{name}' must return a lookalike.data.ImageSet, or a data set with a "
            f"length and items (image, class), not {type(dataset).__name__}: "
            f"{type(error).__name__}: {error}"
        ) from error
    if len(labels) != len(names):
        raise BadInput(f"the data set '{name}' has {len(labels)} classes for {len(names)} items")
    classes = getattr(dataset, "classes", None)
    classes = None if classes is None else [str(one) for one in classes]
    if classes is not None and len(set(classes)) == len(classes) == len(set(labels)):
        labels = [classes[number] for number in np.unique(labels, return_inverse=True)[1]]
    else:
        classes = None
    listing = Listing(Path(), names, [], partial(_item_pixels, dataset))
    return own_images(name.replace(":", ".").replace("/", "."), listing, labels, classes)


def _item_pixels(dataset: Any, index: int) -> NDArray[np.uint8]:
    """A PIL image, an array [H, W, C] or a tensor [C, H, W] as an array [H, W, C]."""
    image = dataset[index][0]
    if isinstance(image, Image.Image):
        return np.array(image.convert("RGB"))
    pixels = image.permute(1, 2, 0).numpy() if isinstance(image, Tensor) else image
    if not isinstance(pixels, np.ndarray) or pixels.dtype != np.uint8 or pixels.ndim != 3:
        kind = f"{pixels.dtype} {pixels.shape}" if isinstance(pixels, np.ndarray) else type(image)
        raise BadInput(
            f"the items of a data set must begin with a PIL image or uint8 pixels, not {kind}; "
            "leave transforms and normalisation to data.transform"
        )
    return np.ascontiguousarray(pixels)


def own_images(
    name: str,
    listing: Listing,
    labels: Sequence[Any],
    class_names: Sequence[str] | None = None,
    splits: Sequence[str] | None = None,
    *,
    query: Mask = None,
    gallery: Mask = None,
) -> ImageSet:
    """An ImageSet of a user's images.

    Args:
        name: The data set.
        listing: The images.
        labels: The class of each: a number or a name.
        class_names: The names of the classes in their order; None: all labels, sorted.
        splits: ``train``, ``val`` or ``test`` of each; None: half of the classes tests.
        query: As in the ImageSet.
        gallery: As in the ImageSet.

    Returns:
        The images.

    Raises:
        BadInput: A label or split is none.
    """
    for image, label in zip(listing.names, labels, strict=True):
        if label is None:
            raise BadInput(f"'{name}': the image '{image}' has no class")
        if not isinstance(label, str | int | float) or label != label:  # NaN
            given = str(label)[:80]
            raise BadInput(
                f"'{name}': a class must be a name or a number, not '{given}' (of '{image}')"
            )
    if len({isinstance(label, str) for label in labels}) > 1:
        labels = [str(label) for label in labels]
    numbers = {label: number for number, label in enumerate(class_names or sorted(set(labels)))}
    indices = np.array([numbers[label] for label in labels], np.int64)
    test: NDArray[np.bool_] = indices >= (len(numbers) + 1) // 2
    validation = None
    if splits is not None:
        for image, mark in zip(listing.names, splits, strict=True):
            if not isinstance(mark, str) or mark not in SPLITS:
                given = str(mark)[:80]
                raise BadInput(
                    f"'{name}': split must be train, val or test, not '{given}' (of '{image}')"
                )
        marks = np.asarray(splits)
        test, validation = marks == "test", marks == "val"
    if query is not None and gallery is not None and (~test & (query | gallery)).any():
        raise BadInput(f"'{name}': only test images can be query or gallery")
    return from_listing(
        name,
        listing,
        indices,
        [str(label) for label in numbers],
        test,
        query=query,
        gallery=gallery,
        validation=validation if validation is not None and validation.any() else None,
        has_split=splits is not None or query is not None,
    )


def _given(name: str, root: Path | None, what: str) -> Path:
    if root is None:
        raise BadInput(f"'{name}' needs data.root: {what}")
    return root
