"""The user's own images: one folder per class."""

import os
from pathlib import Path

import numpy as np

from lookalike.data.image_files import IMAGE_SUFFIXES, from_files
from lookalike.data.image_set import ImageSet
from lookalike.errors import BadInput
from lookalike.registry import DATASETS

__all__ = ["folder"]


@DATASETS.register("folder")
def folder(root: Path | None = None) -> ImageSet:
    """Your own images, one folder per class; the second half of the classes is for testing.

    Classes are the sub-folders of ``root``, sorted by name; images may be in deeper folders. Other
    files and names that begin with a dot are ignored.
    """
    if root is None:
        raise BadInput("'folder' needs data.root: a folder with one sub-folder per class")
    if not root.is_dir():
        raise BadInput(f"data.root of 'folder' is no folder: {root}")
    entries = sorted(entry for entry in root.iterdir() if not entry.name.startswith("."))
    loose = [entry.name for entry in entries if entry.is_file() and _is_image(entry.name)]
    if loose:
        raise BadInput(
            f"{root} holds {len(loose)} picture(s) outside any class folder "
            f"(the first: {loose[0]}); put each into the folder of its class"
        )
    class_folders = [entry for entry in entries if entry.is_dir()]
    if not class_folders:
        raise BadInput(f"{root} contains no class folders; one sub-folder per class is expected")
    files: list[str] = []
    labels: list[int] = []
    for label, class_folder in enumerate(class_folders):
        found = _images_in(root, class_folder)
        if not found:
            raise BadInput(f"the class folder {class_folder} holds no picture")
        files += found
        labels += [label] * len(found)
    numbers = np.array(labels, np.int64)
    return from_files(
        "folder",
        root,
        files,
        numbers,
        [entry.name for entry in class_folders],
        test=numbers >= (len(class_folders) + 1) // 2,
        upright=True,
    )


def _images_in(root: Path, class_folder: Path) -> list[str]:
    found = []
    for where, inner, names in os.walk(class_folder):
        inner[:] = [name for name in inner if not name.startswith(".")]
        here = Path(where).relative_to(root)
        found += [(here / name).as_posix() for name in names if _is_image(name)]
    return sorted(found)


def _is_image(name: str) -> bool:
    return not name.startswith(".") and Path(name).suffix.lower() in IMAGE_SUFFIXES
