"""Where pictures come from: a folder, a CSV, Parquet, WebDataset shards, or a store of training."""

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

import pyarrow
from PIL import Image

from lookalike.data.listing import (
    Listing,
    list_csv,
    list_folder,
    list_parquet,
    list_webdataset,
)
from lookalike.data.store import ImageStore
from lookalike.errors import BadInput
from lookalike.inference.pictures import (
    Skipped,
    Unreadable,
    read_picture,
    refusal_of_file,
    refusal_of_text,
    shown,
)

__all__ = [
    "VECTOR",
    "Kind",
    "Source",
    "column_of",
    "metadata_columns",
    "metadata_name",
    "open_source",
    "require_readable",
]

FIXED = ("path", "label", "size", "modified")
"""The columns that every table of pictures has; the others are metadata."""
VECTOR = "vector"
_PREFIX = "metadata:"

Kind = Literal["folder", "csv", "parquet", "webdataset", "store"]


@dataclass(frozen=True)
class Source:
    """Pictures in a fixed order, listed but not read; it travels between processes.

    Attributes:
        kind: What it is.
        place: Where it is.
        root: What paths are relative to.
        table: A row for each picture: ``path``, ``label``, ``size`` and ``modified`` of its file,
            and metadata as text.
        skipped: What was left out of the table.
        read: From the number of a row to its picture, which may raise ``Unreadable``.
    """

    kind: Kind
    place: Path
    root: Path
    table: pyarrow.Table
    skipped: tuple[Skipped, ...]
    read: Callable[[int], Image.Image]

    def __len__(self) -> int:
        return int(self.table.num_rows)

    @property
    def columns(self) -> list[str]:
        """The names of the metadata."""
        return metadata_columns(self.table.column_names)

    def path_of(self, row: int) -> str:
        """The name of a picture."""
        return str(self.table["path"][row])


def open_source(place: Path, kind: Kind | None = None, root: Path | None = None) -> Source:
    """List the pictures of a source.

    Args:
        place: A folder of pictures (the first sub-folder is the label); a CSV with ``path``,
            perhaps ``label``, and metadata; a Parquet file with ``image`` or a folder of them; a
            .tar of WebDataset or a folder of them; a ``.store`` folder that training
            wrote.
        kind: What it is; None: by its name and content.
        root: What the paths of files are relative to; None: the folder, or that of the CSV.

    Returns:
        The source.

    Raises:
        BadInput: There is nothing, or it cannot be read, or there is no picture.
    """
    place = place.expanduser()
    if not place.exists():
        raise BadInput(f"there is no folder or file '{place}'")
    if kind is not None and kind not in get_args(Kind):
        raise BadInput(f"'{kind}' is no kind of source: give one of {', '.join(get_args(Kind))}")
    kind = kind or kind_of(place)
    place = place.resolve()
    opened = _store(place) if kind == "store" else _listed(kind, place, root)
    if not len(opened):
        reasons = [f"{skipped.path}: {skipped.reason}" for skipped in opened.skipped[:1]]
        raise BadInput(": ".join([f"there is no picture in '{place}'", *reasons]))
    return opened


def require_readable(source: Source) -> None:
    """Refuse a source without a single picture that can be read: before anything is written."""
    reason = ""
    for row in range(len(source)):
        try:
            source.read(row)
            return
        except Unreadable as error:
            reason = reason or f"{source.path_of(row)}: {error.reason}"
    raise BadInput(
        f"none of the {len(source):,} pictures in '{source.place}' can be read; the first, {reason}"
    )


def kind_of(place: Path) -> Kind:
    """What a source is, by its name, or by what lies in the folder."""
    kinds: dict[str, Kind] = {
        ".parquet": "parquet",
        ".tar": "webdataset",
        ".store": "store",
    }
    if place.suffix in kinds:
        return kinds[place.suffix]
    if not place.is_dir():
        return "csv"
    with os.scandir(place) as entries:
        suffixes = {Path(entry.name).suffix for entry in entries}
    for suffix in (".tar", ".parquet"):
        if suffix in suffixes:
            return kinds[suffix]
    return "folder"


@dataclass(frozen=True)
class _Listed:
    """Reads pictures of a list by their row in the table."""

    listing: Listing
    indices: list[int]

    def __call__(self, row: int) -> Image.Image:
        index = self.indices[row]
        name = Path(self.listing.names[index])
        try:
            found = self.listing.locate(index)
        except OSError as error:  # a file that it names is gone, or there is no image
            raise Unreadable(name, f"{type(error).__name__}: {error}") from error
        if isinstance(found, Path):
            return read_picture(found)
        return read_picture(name, bytes(found))


@dataclass(frozen=True)
class _Stored:
    """Reads pictures of a store of training, which are decoded and resized."""

    store: ImageStore

    def __call__(self, row: int) -> Image.Image:
        pixels = self.store.read(row).permute(1, 2, 0).numpy()
        return Image.fromarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels)


def _listed(kind: Kind, place: Path, root: Path | None) -> Source:
    """The pictures of a list that an index could store; the others are skipped."""
    listing, is_file = _LISTS[kind](place), kind in ("folder", "csv")
    home = listing.root
    root = home if root is None or not is_file else root.resolve()
    if not home.is_relative_to(root):
        raise BadInput(f"'{place}' is not in '{root}'")
    columns = dict(listing.columns)
    labels = list(columns.pop("label", [None] * len(listing)))
    paths = list(listing.names)
    if not is_file and "path" in columns:
        own = columns.pop("path")
        paths = list(own) if len(set(own) - {None}) == len(own) else paths
    indices: list[int] = []
    skipped: list[Skipped] = []
    seen: set[str] = set()
    for index, (path, label) in enumerate(zip(paths, labels, strict=True)):
        if is_file:
            if not path or "\0" in path:
                raise BadInput(f"{place}, row {index + 2}: path must not be empty")
            path = paths[index] = os.path.relpath(os.path.join(home, path), root)
        if kind == "folder":
            label = path.rpartition("/")[0].partition("/")[0]
        label = labels[index] = None if label in (None, "") else str(label)
        known = {name: str(values[index]) for name, values in columns.items()}
        reason = "it is listed twice" if path in seen else refusal_of_text(path, label, known)
        reason = reason or (refusal_of_file(root, path) if is_file else "")
        seen.add(path)
        if reason:
            skipped.append(Skipped(shown(path), reason))
        else:
            indices.append(index)
    status = {file: os.stat(file) for file in {listing.files[index] for index in indices}}
    files = [status[listing.files[index]] for index in indices]
    table = pyarrow.table(
        {
            "path": _texts(paths[index] for index in indices),
            "label": _texts(labels[index] for index in indices),
            "size": pyarrow.array([one.st_size for one in files], pyarrow.int64()),
            "modified": pyarrow.array([one.st_mtime_ns for one in files], pyarrow.int64()),
        }
        | {
            column_of(name): _texts(
                None if (value := values[index]) is None else str(value) for index in indices
            )
            for name, values in columns.items()
        }
    )
    return Source(kind, place, root, table, tuple(skipped), _Listed(listing, indices))


def _texts(values: Iterable[str | None]) -> pyarrow.Array:
    return pyarrow.array(list(values), pyarrow.large_string())


def _store(place: Path) -> Source:
    try:
        store = ImageStore(place)
    except (ValueError, OSError) as error:
        raise BadInput(f"cannot read the store '{place}': {error}") from error
    count = len(store)
    table = pyarrow.table(
        {
            "path": _texts(f"{row:08d}" for row in range(count)),
            "label": _texts(map(str, store.labels.tolist())),
            "size": pyarrow.array([-1] * count, pyarrow.int64()),
            "modified": pyarrow.array([place.stat().st_mtime_ns] * count, pyarrow.int64()),
        }
    )
    return Source("store", place, place.parent, table, (), _Stored(store))


_LISTS: dict[Kind, Callable[[Path], Listing]] = {
    "folder": list_folder,
    "csv": list_csv,
    "parquet": list_parquet,
    "webdataset": list_webdataset,
}


def column_of(name: str) -> str:
    """The column of a metadata name, which may be that of a fixed column, such as a size.

    >>> column_of("price"), column_of("size")
    ('price', 'metadata:size')
    """
    clash = name in (*FIXED, VECTOR) or name.startswith(_PREFIX)
    return f"{_PREFIX}{name}" if clash else name


def metadata_name(column: str) -> str:
    """The metadata name of a column.

    >>> metadata_name("price"), metadata_name("metadata:size")
    ('price', 'size')
    """
    return column.removeprefix(_PREFIX)


def metadata_columns(columns: Sequence[str]) -> list[str]:
    """Which of these columns are metadata."""
    return [name for name in columns if name not in (*FIXED, VECTOR)]
