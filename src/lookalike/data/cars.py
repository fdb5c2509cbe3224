"""Cars196: 196 models of cars."""

from pathlib import Path

import numpy as np
from scipy.io import loadmat

from lookalike.data.files import from_files, require
from lookalike.data.image_set import ImageSet
from lookalike.data.listing import Counts, check_counts
from lookalike.errors import BadInput
from lookalike.registry import DATASETS

__all__ = ["OFFICIAL", "cars", "read_cars"]

OFFICIAL = Counts(train_images=8_054, test_images=8_131, train_classes=98, test_classes=98)


def read_cars(root: Path | None, expected: Counts) -> ImageSet:
    """Read the official layout; the first half of the class numbers is the training half.

    The file's own ``test`` column is the split for classification, with every class in both
    parts; metric learning does not use it.
    """
    home = require("cars", root, "cars196", ("cars_annos.mat", "car_ims"))
    path = home / "cars_annos.mat"
    try:
        table = loadmat(path, squeeze_me=True)
        rows = np.atleast_1d(table["annotations"])
        class_names = [str(name) for name in np.atleast_1d(table["class_names"])]
        files = [str(file) for file in rows["relative_im_path"]]
        labels = rows["class"].astype(np.int64) - 1
    except Exception as error:  # a broken .mat file makes scipy raise whatever it meets first
        raise BadInput(f"cannot read the annotations in {path}: {error}") from error
    if len(labels) and not 0 <= labels.min() <= labels.max() < len(class_names):
        raise BadInput(f"{path} numbers classes outside 1..{len(class_names)}")
    images = from_files(
        "cars", home, files, labels, class_names, test=labels >= expected.train_classes
    )
    check_counts(images, expected, home)
    return images


@DATASETS.register("cars", paper="Krause et al., 3dRR Workshop 2013")
def cars(root: Path | None = None) -> ImageSet:
    """Cars196: 16,185 photos of 196 models of cars; 98 to train, 98 to test."""
    return read_cars(root, OFFICIAL)
