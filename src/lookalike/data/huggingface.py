"""Data sets of the Hugging Face library ``datasets``, from disk."""

from pathlib import Path
from typing import Any

import numpy as np

from lookalike.data.content import item_digests
from lookalike.data.image_set import ImageSet, digest
from lookalike.data.listed_images import from_encoded
from lookalike.errors import BadInput
from lookalike.files import open_regular
from lookalike.registry import DATASETS

__all__ = ["from_huggingface", "huggingface"]

_SPLITS = {"train": "train", "validation": "val", "val": "val", "test": "test"}


class _HuggingFaceBytes:
    """Reads the encoded images of several splits, one after another.

    Args:
        parts: The splits.
        names_files: Whether a row may name a file instead of holding its bytes.
    """

    def __init__(self, parts: list[Any], names_files: bool) -> None:
        self.parts = parts
        self.names_files = names_files
        self.first = np.cumsum([0, *(len(part) for part in parts)])

    def __call__(self, index: int) -> bytes:
        part = int(np.searchsorted(self.first, index, "right")) - 1
        value = self.parts[part][index - int(self.first[part])]["image"]
        data = value["bytes"]
        if data is not None:
            return bytes(data)
        if not self.names_files:
            raise FileNotFoundError(f"it names the file '{value['path']}', and has no image itself")
        with open_regular(value["path"]) as file:
            return file.readall()


@DATASETS.register("huggingface")
def huggingface(root: Path | None = None) -> ImageSet:
    """Your own images as a ``datasets`` folder, written by ``save_to_disk``, which has the images.

    It has the columns image and label. Of a dictionary, the parts ``train``, ``validation`` and
    ``test`` are used as such; of one part the second half of the classes tests.
    """
    import datasets

    if root is None:
        raise BadInput("'huggingface' needs data.root: a folder written by save_to_disk")
    if odd := [path for path in root.rglob("*") if not (path.is_file() or path.is_dir())]:
        raise BadInput(f"'{odd[0]}' of data.root is no regular file")
    try:
        found = datasets.load_from_disk(str(root))
        for part in dict(found).values() if isinstance(found, datasets.DatasetDict) else [found]:
            part.data.table.validate(full=True)  # its buffers are read as they are
    except Exception as error:  # the library raises almost any exception for a damaged one
        raise BadInput(f"data.root of 'huggingface' is no data set on disk: {error}") from error
    times = (f"{file.name} {file.stat().st_mtime_ns}" for file in sorted(root.rglob("*.arrow")))
    return from_huggingface(found, digest(str(root.resolve()), *times), names_files=False)


def from_huggingface(found: Any, place: str = "", names_files: bool = True) -> ImageSet:
    """An ImageSet of a ``datasets.Dataset``, or of a ``datasets.DatasetDict``.

    Args:
        found: The data set, with the columns ``image`` and ``label``.
        place: Where it lies, and what changes when it is written again.
        names_files: Whether its rows may name files anywhere; one on disk has all images in it.

    Returns:
        The images.

    Raises:
        BadInput: A column or the split of a part is not as expected.
    """
    import datasets

    parts = dict(found) if isinstance(found, datasets.DatasetDict) else {"": found}
    splits: list[str] | None = [] if isinstance(found, datasets.DatasetDict) else None
    labels: list[Any] = []
    files: list[str] = []
    read = []
    class_names = None
    for name, part in parts.items():
        for column in ("image", "label"):
            if column not in part.column_names:
                raise BadInput(f"the data set of Hugging Face has no column '{column}' {name}")
        if splits is not None:
            if name not in _SPLITS:
                raise BadInput(f"the part '{name}' is none of {', '.join(_SPLITS)}")
            splits += [_SPLITS[name]] * len(part)
        labels += part["label"]
        files += [f"{name or 'row'} {row}" for row in range(len(part))]
        read.append(part.select_columns("image").cast_column("image", datasets.Image(decode=False)))
        names = part.features["label"]
        class_names = names.names if isinstance(names, datasets.ClassLabel) else None
    rows = _HuggingFaceBytes(read, names_files)
    content = item_digests(rows, len(files))
    return from_encoded(
        "huggingface", files, labels, splits, rows, content, place, class_names=class_names
    )
