"""The user's own images: one folder per class, or a CSV table of paths and labels."""

from difflib import get_close_matches
from itertools import chain
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lookalike.data.csv_table import TableRow, read_table
from lookalike.data.image_files import (
    IMAGE_SUFFIXES,
    picture_files,
    suffix_of,
    warn_of_other_formats,
)
from lookalike.data.image_set import ImageSet
from lookalike.data.listed_images import from_files, halves
from lookalike.errors import BadInput
from lookalike.registry import DATASETS

_COLUMNS = ("path", "label", "split", "query", "gallery")
_MARK = dict.fromkeys(("1", "true", "yes"), True) | dict.fromkeys(("0", "false", "no", ""), False)


@DATASETS.register("folder")
def folder(root: Path | None = None) -> ImageSet:
    """Your own images, one folder per class; half of the classes is for testing.

    Classes are the sub-folders of ``root``, sorted by name; images may be in deeper folders. Other
    files and names that begin with a dot are ignored.
    """
    if root is None:
        raise BadInput("'folder' needs data.root: a folder with one sub-folder per class")
    if not root.is_dir():
        raise BadInput(f"data.root of 'folder' is no folder: {root}")
    entries = sorted(entry for entry in root.iterdir() if not entry.name.startswith("."))
    loose = [entry.name for entry in entries if entry.is_file() and _is_image(entry.name)]
    class_folders = [entry for entry in entries if entry.is_dir()]
    pictures = [sorted(picture_files(root, entry.name)) for entry in class_folders]
    images = [[file for file in found if _is_image(file)] for found in pictures]
    empty = [entry.name for entry, found in zip(class_folders, images, strict=True) if not found]
    problems = []
    if loose:
        problems.append(
            f"{len(loose)} picture(s) outside any class folder (the first: {loose[0]}); put each "
            "into the folder of its class"
        )
    if not class_folders:
        problems.append("no class folders; one sub-folder per class is expected")
    if empty:
        problems.append(f"class folders without a picture: {', '.join(empty[:10])}")
    if problems:
        raise BadInput(f"{root} has " + "; and ".join(problems))
    files = [file for found in images for file in found]
    labels = np.repeat(np.arange(len(images)), [len(found) for found in images])
    warn_of_other_formats(root, chain.from_iterable(pictures))
    return from_files(
        "folder",
        root,
        files,
        labels,
        [entry.name for entry in class_folders],
        test=labels >= (len(class_folders) + 1) // 2,
        upright=True,
        has_split=False,
    )


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
    if root is None:
        raise BadInput("'csv' needs data.root: a CSV file with the columns path and label")
    if not root.is_file():
        raise BadInput(f"data.root of 'csv' is no file: {root}")
    columns, rows = _read(root)
    files = [row["path"] for row in rows]
    lines: dict[str, int] = {}
    for line, file in enumerate(files, 2):
        if lines.setdefault(file, line) != line:
            raise BadInput(f"{root}, row {line}: '{file}' is there twice")
    class_names = list(dict.fromkeys(row["label"] for row in rows))
    number = {name: index for index, name in enumerate(class_names)}
    labels = np.array([number[row["label"]] for row in rows], np.int64)
    marks = [row["split"].strip().lower() for row in rows] if "split" in columns else None
    test, validation = halves("csv", labels, len(class_names), marks)
    query = gallery = None
    if "query" in columns or "gallery" in columns:
        for part in {"query", "gallery"}.difference(columns):
            raise BadInput(f"{root}: query and gallery go together; the column '{part}' is missing")
        query, gallery = (_flags(root, rows, part) for part in ("query", "gallery"))
        if (~test & (query | gallery)).any():
            raise BadInput(f"{root}: only test images can be query or gallery")
    return from_files(
        "csv",
        root.parent,
        files,
        labels,
        class_names,
        test,
        query,
        gallery,
        upright=True,
        validation=validation,
        has_split="split" in columns or query is not None,
    )


def _read(path: Path) -> tuple[list[str], list[TableRow]]:
    """The table; columns of other names are metadata, unless they look like a slip."""
    columns, rows = read_table(path)
    for column in columns:
        near = get_close_matches(column.lower(), _COLUMNS, n=1, cutoff=0.75)
        if column not in _COLUMNS and near and near[0] not in columns:
            raise BadInput(f"{path}: unknown column '{column}'; did you mean '{near[0]}'?")
    if "label" not in columns:
        raise BadInput(f"{path}: the column 'label' is missing")
    if not rows:
        raise BadInput(f"{path} has no rows")
    for line, row in enumerate(rows, 2):
        if not row["path"] or not row["label"]:
            raise BadInput(f"{path}, row {line}: path and label must not be empty")
    return columns, rows


def _flags(path: Path, rows: list[TableRow], column: str) -> NDArray[np.bool_]:
    for line, row in enumerate(rows, 2):
        if row[column].strip().lower() not in _MARK:
            raise BadInput(f"{path}, row {line}: {column} must be 1 or 0, not '{row[column]}'")
    return np.array([_MARK[row[column].strip().lower()] for row in rows])
