"""Parquet files with the bytes of images, as Hugging Face publishes data sets."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lookalike.data.image_set import ImageSet
from lookalike.data.listed_images import content_of, from_encoded
from lookalike.errors import BadInput, did_you_mean
from lookalike.registry import DATASETS

__all__ = ["ParquetImages", "explain_unreadable", "parquet", "scan"]


class _ParquetBytes:
    """Reads the images by row group, of which the last few are kept; travels between processes."""

    kept = 8

    def __init__(self, groups: list[tuple[Path, int]], first: NDArray[np.int64]) -> None:
        self.groups = groups
        self.first = first
        self._lock = Lock()
        self._read: dict[int, Any] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return _ParquetBytes, (self.groups, self.first)

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


@dataclass(frozen=True)
class ParquetImages:
    """The rows of Parquet files with images.

    Attributes:
        paths: The files.
        counts: The rows of each file.
        read: From the number of a row to the bytes of its image.
        table: The other columns, of all files.
    """

    paths: list[Path]
    counts: list[int]
    read: Callable[[int], bytes]
    table: Any

    @property
    def files(self) -> list[str]:
        """A name for each row."""
        pairs = zip(self.paths, self.counts, strict=True)
        return [f"{path.name}, row {row}" for path, count in pairs for row in range(count)]


@contextmanager
def explain_unreadable(path: Path) -> Iterator[None]:
    """Refuse a Parquet file that cannot be read, in one sentence."""
    import pyarrow

    try:
        yield
    except (pyarrow.ArrowException, OSError, UnicodeError) as error:
        reason = str(error).partition("\n")[0]
        raise BadInput(f"cannot read '{path}': {reason}") from error


def scan(
    root: Path, needed: Sequence[str] = (), wanted: Callable[[Any], bool] | None = None
) -> ParquetImages:
    """Read all but the images of a Parquet file, or of a folder of them.

    Args:
        root: The file or folder.
        needed: Columns that every file must have besides ``image``.
        wanted: Whether a column (a ``pyarrow.Field``) is read; None: those of ``needed``.

    Returns:
        The rows of all files, in the order of the files' names.

    Raises:
        BadInput: There is no file, one cannot be read, or a column is missing.
    """
    import pyarrow
    import pyarrow.parquet

    paths = [root] if root.is_file() else sorted(filter(Path.is_file, root.rglob("*.parquet")))
    if not paths:
        raise BadInput(f"'{root}' has no .parquet file")
    groups: list[tuple[Path, int]] = []
    counts: list[int] = []
    tables: list[Any] = []
    for path in paths:
        with explain_unreadable(path):
            file = pyarrow.parquet.ParquetFile(path)
            fields = file.schema_arrow
        for column in ("image", *needed):
            if column not in fields.names:
                raise BadInput(
                    f"{path}: the column '{column}' is missing; "
                    f"{did_you_mean(column, fields.names)}"
                )
        chosen = [
            field.name
            for field in fields
            if field.name != "image" and (field.name in needed if wanted is None else wanted(field))
        ]
        with explain_unreadable(path):
            tables.append(file.read(columns=chosen))
        for group in range(file.num_row_groups):
            groups.append((path, group))
            counts.append(file.metadata.row_group(group).num_rows)
    try:
        table = pyarrow.concat_tables(tables, promote_options="default")
    except pyarrow.ArrowException as error:
        raise BadInput(f"the files in {root} have columns of different types: {error}") from error
    first = np.cumsum([0, *counts])[:-1]
    return ParquetImages(paths, [len(one) for one in tables], _ParquetBytes(groups, first), table)


@DATASETS.register("parquet")
def parquet(root: Path | None = None) -> ImageSet:
    """Your own images in Parquet: a file, or a folder of them, with the columns image and label.

    ``image`` has the bytes of a file (or a struct with ``bytes``), ``label`` a number or name, and
    ``split``, if there is one, train, val or test; without it the second half of the classes tests.
    """
    if root is None:
        raise BadInput("'parquet' needs data.root: a .parquet file, or a folder of them")
    found = scan(root, ["label"], lambda field: field.name in ("label", "split"))
    files, labels = found.files, found.table["label"].to_pylist()
    if None in labels:
        raise BadInput(f"'{files[labels.index(None)]}' of {root} has no label")
    splits = found.table["split"].to_pylist() if "split" in found.table.column_names else None
    if splits is not None and None in splits:
        raise BadInput(f"some files in {root} have a column 'split' and others do not")
    return from_encoded(
        "parquet",
        files,
        labels,
        splits or None,
        found.read,
        *content_of(found.paths),
    )
