"""CUB-200-2011: 200 kinds of birds."""

from pathlib import Path

import numpy as np

from lookalike.data.files import from_files, require
from lookalike.data.image_set import ImageSet
from lookalike.data.listing import Counts, check_counts, numbered_lines
from lookalike.errors import BadInput
from lookalike.registry import DATASETS

__all__ = ["OFFICIAL", "cub", "read_cub"]

OFFICIAL = Counts(train_images=5_864, test_images=5_924, train_classes=100, test_classes=100)


def read_cub(root: Path | None, expected: Counts) -> ImageSet:
    """Read the official layout; the first half of the class numbers is the training half."""
    home = require(
        "cub",
        root,
        "CUB_200_2011",
        ("images.txt", "image_class_labels.txt", "classes.txt", "images"),
    )
    files = numbered_lines(home / "images.txt")
    classes = numbered_lines(home / "classes.txt")
    class_of = numbered_lines(home / "image_class_labels.txt")
    if files.keys() != class_of.keys():
        raise BadInput(f"{home}: images.txt and image_class_labels.txt number different images")
    position = {number: index for index, number in enumerate(sorted(classes))}
    try:
        labels = np.array([position[int(class_of[i])] for i in files], np.int64)
    except (KeyError, ValueError) as error:
        raise BadInput(
            f"{home / 'image_class_labels.txt'} names class {error}, which classes.txt lacks"
        ) from error
    images = from_files(
        "cub",
        home / "images",
        list(files.values()),
        labels,
        [classes[number] for number in sorted(classes)],
        test=labels >= expected.train_classes,
    )
    check_counts(images, expected, home)
    return images


@DATASETS.register("cub", paper="Wah et al., Caltech technical report 2011")
def cub(root: Path | None = None) -> ImageSet:
    """CUB-200-2011: 11,788 photos of 200 kinds of birds; 100 to train, 100 to test."""
    return read_cub(root, OFFICIAL)
