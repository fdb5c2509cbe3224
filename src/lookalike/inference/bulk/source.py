"""Where pictures come from: a folder, a CSV, Parquet, WebDataset shards, or a store of training."""

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Literal, get_args

import pyarrow
from PIL import Image

from lookalike.data.parquet import scan
from lookalike.data.store import ImageStore
from lookalike.data.webdataset import Members, about_sample, samples_of, shards_of
from lookalike.errors import BadInput
from lookalike.inference.bulk.columns import FIXED, column_of, metadata_columns
from lookalike.inference.bulk.listing import (
    Listed,
    Skipped,
    home_of,
    list_files,
    refusal_of_text,
    shown,
)
from lookalike.inference.pictures import Unreadable, read_picture

__all__ = ["Kind", "Source", "open_source", "require_readable"]

Kind = Literal["folder", "csv", "parquet", "webdataset", "store"]

BLOCK = 65_536


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
    if kind in ("folder", "csv"):
        opened = _files(place.resolve(), root)
    else:
        opened = _OPENERS[kind](place.resolve())
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
class _Files:
    """Reads pictures that are files."""

    root: Path
    paths: pyarrow.ChunkedArray

    def __call__(self, row: int) -> Image.Image:
        return read_picture(self.root / str(self.paths[row]))


@dataclass(frozen=True)
class _Encoded:
    """Reads pictures that are bytes inside of larger files."""

    names: pyarrow.ChunkedArray
    data: Callable[[int], bytes]

    def __call__(self, row: int) -> Image.Image:
        name = Path(str(self.names[row]))
        try:
            data = self.data(row)
        except (OSError, TypeError) as error:  # a file that it names is gone, or there is no image
            raise Unreadable(name, f"{type(error).__name__}: {error}") from error
        return read_picture(name, data)


@dataclass(frozen=True)
class _Stored:
    """Reads pictures of a store of training, which are decoded and resized."""

    store: ImageStore

    def __call__(self, row: int) -> Image.Image:
        pixels = self.store.read(row).permute(1, 2, 0).numpy()
        return Image.fromarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels)


def _files(place: Path, root: Path | None) -> Source:
    skipped: list[Skipped] = []

    def usable() -> Iterator[Listed]:
        for one in list_files(place, root):
            if isinstance(one, Listed):
                yield one
            else:
                skipped.append(one)

    table, root = as_table(usable()), root or home_of(place)
    kind: Kind = "folder" if place.is_dir() else "csv"
    return Source(kind, place, root, table, tuple(skipped), _Files(root, table["path"]))


def as_table(pictures: Iterable[Listed]) -> pyarrow.Table:
    """Pictures as columns; all of them have the same metadata."""
    blocks: list[pyarrow.Table] = []
    waiting = iter(pictures)
    while block := list(islice(waiting, BLOCK)):
        names = dict.fromkeys(name for one in block for name in one.metadata)
        columns = {
            "path": _texts(one.path for one in block),
            "label": _texts(one.label for one in block),
            "size": pyarrow.array([one.size for one in block], pyarrow.int64()),
            "modified": pyarrow.array([one.modified for one in block], pyarrow.int64()),
            **{column_of(name): _texts(one.metadata.get(name) for one in block) for name in names},
        }
        blocks.append(pyarrow.table(columns))
    if not blocks:
        return as_table_of_nothing()
    return pyarrow.concat_tables(blocks, promote_options="default").combine_chunks()


def as_table_of_nothing() -> pyarrow.Table:
    """The table of no pictures."""
    text, number = pyarrow.large_string(), pyarrow.int64()
    return pyarrow.table(
        [pyarrow.array([], kind) for kind in (text, text, number, number)], list(FIXED)
    )


def _texts(values: Iterable[str | None]) -> pyarrow.Array:
    return pyarrow.array(list(values), pyarrow.large_string())


def _parquet(place: Path) -> Source:
    found = scan(place, wanted=lambda field: not pyarrow.types.is_nested(field.type))
    root = place if place.is_dir() else place.parent
    paths: list[str] = []
    sizes: list[int] = []
    times: list[int] = []
    for path, count in zip(found.paths, found.counts, strict=True):
        status, name = path.stat(), path.relative_to(root).as_posix()
        paths += [f"{name}/{row}" for row in range(count)]
        sizes += [status.st_size] * count
        times += [status.st_mtime_ns] * count
    named = _column(found.table, "path")
    if named is None or named.null_count or len(named.unique()) < len(named):
        named = _texts(paths)
    label = _column(found.table, "label")
    columns = {
        "path": named,
        "label": _texts([None] * len(paths)) if label is None else label,
        "size": pyarrow.array(sizes, pyarrow.int64()),
        "modified": pyarrow.array(times, pyarrow.int64()),
    }
    for name in found.table.column_names:
        if name not in ("path", "label") and (values := _column(found.table, name)) is not None:
            columns[column_of(name)] = values
    table = pyarrow.table(columns).combine_chunks()
    return Source("parquet", place, root, table, (), _Encoded(table["path"], found.read))


def _column(table: pyarrow.Table, name: str) -> pyarrow.ChunkedArray | None:
    """A column as text; None where there is none, or it cannot be text, such as bytes."""
    if name not in table.column_names:
        return None
    try:
        return table[name].cast(pyarrow.large_string())
    except pyarrow.ArrowException:
        return None


def _webdataset(place: Path) -> Source:
    shards = shards_of(place)
    places: list[tuple[int, int, int]] = []
    pictures: list[Listed] = []
    skipped: list[Skipped] = []
    for number, shard in enumerate(shards):
        modified = shard.stat().st_mtime_ns
        for key, image, about in samples_of(shard):
            values = about_sample(shard, key, about)
            label = values.pop("label", None)
            metadata = {
                name: str(value)
                for name, value in values.items()
                if isinstance(value, str | int | float)
            }
            path = f"{shard.name}/{image.name}"
            text = None if label in (None, "") else str(label)
            reason = refusal_of_text(path, text, metadata)
            if reason:
                skipped.append(Skipped(shown(path), reason))
                continue
            pictures.append(Listed(path, text, metadata, image.size, modified))
            places.append((number, image.offset_data, image.size))
    table = as_table(pictures)
    root = place if place.is_dir() else place.parent
    read = _Encoded(table["path"], Members(shards, places))
    return Source("webdataset", place, root, table, tuple(skipped), read)


def _store(place: Path) -> Source:
    try:
        store = ImageStore(place)
    except (ValueError, OSError) as error:
        raise BadInput(f"cannot read the store '{place}': {error}") from error
    modified = place.stat().st_mtime_ns
    pictures = (
        Listed(f"{row:08d}", str(label), {}, -1, modified)
        for row, label in enumerate(store.labels.tolist())
    )
    return Source("store", place, place.parent, as_table(pictures), (), _Stored(store))


_OPENERS: dict[Kind, Callable[[Path], Source]] = {
    "parquet": _parquet,
    "webdataset": _webdataset,
    "store": _store,
}
