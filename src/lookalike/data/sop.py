"""Stanford Online Products: things for sale, a few photos each."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from lookalike.data.files import from_files, require
from lookalike.data.image_set import ImageSet
from lookalike.data.listing import Counts, check_counts, read_lines
from lookalike.errors import BadInput
from lookalike.registry import DATASETS

__all__ = ["OFFICIAL", "read_sop", "sop"]

OFFICIAL = Counts(
    train_images=59_551, test_images=60_502, train_classes=11_318, test_classes=11_316
)
_HEADER = ["image_id", "class_id", "super_class_id", "path"]


def read_sop(root: Path | None, expected: Counts) -> ImageSet:
    """Read the official layout; the two lists are the two halves."""
    lists = ("Ebay_train.txt", "Ebay_test.txt")
    home = require("sop", root, "Stanford_Online_Products", lists)
    halves = [_rows(home / name) for name in lists]
    rows = halves[0] + halves[1]
    numbers, labels = np.unique(np.array([row[0] for row in rows], np.int64), return_inverse=True)
    files = [row[1] for row in rows]
    kind_of = {number: file.partition("_final/")[0] for number, file in rows}
    images = from_files(
        "sop",
        home,
        files,
        labels.astype(np.int64),
        [f"{kind_of[int(number)]} {number}" for number in numbers],
        test=np.arange(len(rows)) >= len(halves[0]),
    )
    check_counts(images, expected, home)
    kinds = np.unique([kind_of[row[0]] for row in rows], return_inverse=True)[1]
    return replace(images, super_labels=kinds.astype(np.int64))


def _rows(path: Path) -> list[tuple[int, str]]:
    """Class number and file of every line."""
    lines = read_lines(path)
    if not lines or lines[0].split() != _HEADER:
        raise BadInput(f"{path}: the first line should read '{' '.join(_HEADER)}'")
    rows = []
    for line in lines[1:]:
        fields = line.split(maxsplit=3)
        if len(fields) != 4 or not fields[1].isdecimal():
            raise BadInput(f"{path}: expected '{' '.join(_HEADER)}', found '{line}'")
        rows.append((int(fields[1]), fields[3]))
    return rows


@DATASETS.register("sop", paper="Oh Song et al., CVPR 2016")
def sop(root: Path | None = None) -> ImageSet:
    """Stanford Online Products: 120,053 photos of 22,634 things for sale."""
    return read_sop(root, OFFICIAL)
