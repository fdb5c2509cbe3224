"""Parquet files with the bytes of images, as Hugging Face publishes data sets."""

from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lookalike.data.encoded_images import from_encoded
from lookalike.data.image_set import ImageSet, digest
from lookalike.errors import BadInput, did_you_mean
from lookalike.registry import DATASETS

__all__ = ["parquet"]


class _Rows:
    """Reads the images by row group, of which the last few are kept; travels between processes."""

    kept = 8

    def __init__(self, groups: list[tuple[Path, int]], first: NDArray[np.int64]) -> None:
        self.groups = groups
        self.first = first
        self._lock = Lock()
        self._read: dict[int, Any] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return _Rows, (self.groups, self.first)

    def __call__(self, index: int) -> bytes:
        group = int(np.searchsorted(self.first, index, "right")) - 1
        value = self._column(group)[index - int(self.first[group])].as_py()
        data = value["bytes"] if isinstance(value, dict) else value
        return bytes(data or b"")

    def _column(self, group: int) -> Any:
        with self._lock:
            if group not in self._read:
                import pyarrow.parquet

                path, number = self.groups[group]
                file = pyarrow.parquet.ParquetFile(path)
                self._read[group] = file.read_row_group(number, columns=["image"])["image"]
                while len(self._read) > self.kept:
                    del self._read[next(iter(self._read))]
            return self._read[group]


@DATASETS.register("parquet")
def parquet(root: Path | None = None) -> ImageSet:
    """Your own images in Parquet: a file, or a folder of them, with the columns image and label.

    ``image`` has the bytes of a file (or a struct with ``bytes``), ``label`` a number or name, and
    ``split``, if there is one, train, val or test; without it the second half of the classes tests.
    """
    import pyarrow
    import pyarrow.parquet

    if root is None:
        raise BadInput("'parquet' needs data.root: a .parquet file, or a folder of them")
    paths = [root] if root.is_file() else sorted(root.rglob("*.parquet"))
    if not paths:
        raise BadInput(f"data.root of 'parquet' has no .parquet file: {root}")
    groups: list[tuple[Path, int]] = []
    counts: list[int] = []
    files: list[str] = []
    labels: list[Any] = []
    splits: list[str] = []
    sizes: list[int] = []
    for path in paths:
        try:
            file = pyarrow.parquet.ParquetFile(path)
        except (pyarrow.ArrowException, OSError) as error:
            raise BadInput(f"cannot read {path}: {error}") from error
        names = file.schema_arrow.names
        for column in ("image", "label"):
            if column not in names:
                raise BadInput(
                    f"{path}: the column '{column}' is missing; {did_you_mean(column, names)}"
                )
        table = file.read(columns=[name for name in ("label", "split") if name in names])
        labels += table["label"].to_pylist()
        if "split" in names:
            splits += table["split"].to_pylist()
        files += [f"{path.name}, row {row}" for row in range(table.num_rows)]
        for group in range(file.num_row_groups):
            groups.append((path, group))
            counts.append(file.metadata.row_group(group).num_rows)
            sizes.append(file.metadata.row_group(group).total_byte_size)
    if None in labels:
        raise BadInput(f"'{files[labels.index(None)]}' of {root} has no label")
    if splits and len(splits) < len(files):
        raise BadInput(f"some files in {root} have a column 'split' and others do not")
    first = np.cumsum([0, *counts])[:-1]
    return from_encoded(
        "parquet",
        files,
        labels,
        splits or None,
        _Rows(groups, first),
        digest(*map(str, sizes)),
        digest(*(f"{path.resolve()} {path.stat().st_mtime_ns}" for path in paths)),
    )
