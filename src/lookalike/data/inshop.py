"""In-Shop Clothes Retrieval, a part of DeepFashion: query and gallery are given."""

from pathlib import Path

import numpy as np

from lookalike.data.files import from_files, require
from lookalike.data.image_set import ImageSet
from lookalike.data.listing import Counts, check_counts, read_lines
from lookalike.errors import BadInput
from lookalike.registry import DATASETS

__all__ = ["OFFICIAL", "inshop", "read_inshop"]

OFFICIAL = Counts(
    train_images=25_882,
    test_images=26_830,
    train_classes=3_997,
    test_classes=3_985,
    query_images=14_218,
    gallery_images=12_612,
)
_HEADER = ["image_name", "item_id", "evaluation_status"]
_PARTS = ("train", "query", "gallery")


def read_inshop(root: Path | None, expected: Counts) -> ImageSet:
    """Read the official layout; classes are the item ids in sorted order."""
    home = require("inshop", root, "InShop_Clothes", ("list_eval_partition.txt", "img"))
    path = home / "list_eval_partition.txt"
    lines = read_lines(path)
    if len(lines) < 2 or lines[1].split() != _HEADER:
        raise BadInput(f"{path}: the second line should read '{' '.join(_HEADER)}'")
    rows = [line.split() for line in lines[2:]]
    for row in rows:
        if len(row) != 3 or row[2] not in _PARTS:
            raise BadInput(
                f"{path}: expected a file, an item and one of {', '.join(_PARTS)}; "
                f"found '{' '.join(row)}'"
            )
    items, labels = np.unique([row[1] for row in rows], return_inverse=True)
    parts = np.array([row[2] for row in rows])
    images = from_files(
        "inshop",
        home,
        [row[0] for row in rows],
        labels.astype(np.int64),
        [str(item) for item in items],
        test=parts != "train",
        query=parts == "query",
        gallery=parts == "gallery",
    )
    check_counts(images, expected, home)
    return images


@DATASETS.register("inshop", paper="Liu et al., CVPR 2016")
def inshop(root: Path | None = None) -> ImageSet:
    """In-Shop Clothes Retrieval: 52,712 photos of 7,982 pieces of clothing."""
    return read_inshop(root, OFFICIAL)
