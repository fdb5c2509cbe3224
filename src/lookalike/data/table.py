"""The user's own images: a CSV table of paths and labels."""

import csv
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lookalike.data.image_files import from_files
from lookalike.data.image_set import ImageSet
from lookalike.errors import BadInput, did_you_mean
from lookalike.registry import DATASETS

__all__ = ["table"]

_COLUMNS = ("path", "label", "split", "query", "gallery")
_YES = frozenset({"1", "true", "yes"})
_NO = frozenset({"0", "false", "no", ""})

Row = dict[str, str]


@DATASETS.register("csv")
def table(root: Path | None = None) -> ImageSet:
    """Your own images from a CSV with path, label and optionally split, query, gallery.

    ``root`` is the CSV file; paths are relative to its folder. ``split`` is train or test; without
    it the second half of the classes, in order of appearance, is for testing. ``query`` and
    ``gallery`` (1 or 0, both or neither) mark the two parts of the test half.
    """
    if root is None:
        raise BadInput("'csv' needs data.root: a CSV file with the columns path and label")
    if not root.is_file():
        raise BadInput(f"data.root of 'csv' is no file: {root}")
    columns, rows = _read(root)
    files = [row["path"] for row in rows]
    _refuse_repeated(root, files)
    class_names = list(dict.fromkeys(row["label"] for row in rows))
    number = {name: index for index, name in enumerate(class_names)}
    labels = np.array([number[row["label"]] for row in rows], np.int64)
    if "split" in columns:
        test = np.array([_half(root, line, row) for line, row in enumerate(rows, 2)])
    else:
        test = labels >= (len(class_names) + 1) // 2
    query = gallery = None
    if "query" in columns or "gallery" in columns:
        query, gallery = (_marks(root, columns, rows, part) for part in ("query", "gallery"))
        if (~test & (query | gallery)).any():
            raise BadInput(f"{root}: only test images can be query or gallery")
    return from_files(
        "csv", root.parent, files, labels, class_names, test, query, gallery, upright=True
    )


def _read(path: Path) -> tuple[list[str], list[Row]]:
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file, strict=True)
            columns = [name.strip() for name in reader.fieldnames or []]
            reader.fieldnames = columns
            rows = list(reader)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise BadInput(f"cannot read {path}: {error}") from error
    for column in columns:
        if column not in _COLUMNS:
            raise BadInput(f"{path}: unknown column '{column}'; {did_you_mean(column, _COLUMNS)}")
    for column in ("path", "label"):
        if column not in columns:
            raise BadInput(f"{path}: the column '{column}' is missing")
    if not rows:
        raise BadInput(f"{path} has no rows")
    for line, row in enumerate(rows, 2):
        if None in row or None in row.values():
            raise BadInput(f"{path}, row {line}: {len(columns)} values expected")
        if not row["path"] or not row["label"]:
            raise BadInput(f"{path}, row {line}: path and label must not be empty")
    return columns, rows


def _refuse_repeated(path: Path, files: list[str]) -> None:
    seen: set[str] = set()
    for line, file in enumerate(files, 2):
        if file in seen:
            raise BadInput(f"{path}, row {line}: '{file}' is there twice")
        seen.add(file)


def _half(path: Path, line: int, row: Row) -> bool:
    value = row["split"].strip().lower()
    if value not in ("train", "test"):
        raise BadInput(f"{path}, row {line}: split must be train or test, not '{row['split']}'")
    return value == "test"


def _marks(path: Path, columns: list[str], rows: list[Row], column: str) -> NDArray[np.bool_]:
    if column not in columns:
        raise BadInput(f"{path}: query and gallery go together; the column '{column}' is missing")
    values = [row[column].strip().lower() for row in rows]
    for line, value in enumerate(values, 2):
        if value not in _YES | _NO:
            raise BadInput(f"{path}, row {line}: {column} must be 1 or 0, not '{value}'")
    return np.array([value in _YES for value in values])
