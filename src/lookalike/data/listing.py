"""Lists of encoded images: the one door of all commands to pictures that are not ours.

A folder, a CSV, Parquet files and WebDataset shards are each a name and some columns per image, and
a way to get the bytes of one. Training makes an ImageSet of a list, search a table of records.
"""

import csv
import io
import os
import tarfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lookalike.data.image_files import IMAGE_SUFFIXES, picture_files
from lookalike.errors import BadInput, did_you_mean
from lookalike.files import open_regular, parse_json

__all__ = [
    "Listing",
    "explain_unreadable",
    "in_folder",
    "list_csv",
    "list_folder",
    "list_parquet",
    "list_webdataset",
    "read_table",
]

Locate = Callable[[int], Path | bytes | NDArray[np.uint8]]
"""From the index of an image to its file, to the bytes of one, or to its pixels [H, W, C]."""
SEPARATORS = ",;\t"
LABEL_FILES = (".cls", ".txt", ".json")
"""What says something about a sample of WebDataset."""
ROW_GROUPS = 8
"""Row groups of Parquet files that are kept in memory."""


@dataclass(frozen=True)
class Listing:
    """Encoded images in a fixed order, listed but not read; it travels between processes.

    Attributes:
        root: What names are relative to.
        names: The name of each image.
        files: The file that each is, or lies in; empty where they are in memory.
        locate: From the index of an image to its file or its bytes; it may raise an ``OSError``.
        columns: What else is known of each, such as ``label`` and ``split``; None where nothing is.
    """

    root: Path
    names: list[str]
    files: list[str]
    locate: Locate
    columns: Mapping[str, Sequence[Any]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.names)


def in_folder(
    root: Path, names: Sequence[str], columns: Mapping[str, Sequence[Any]] | None = None
) -> Listing:
    """The files ``names``, which are relative to ``root``."""
    files = [os.path.join(root, name) for name in names]
    return Listing(root, list(names), files, partial(_path_of, files), columns or {})


def _path_of(files: Sequence[str], index: int) -> Path:
    return Path(files[index])


def list_folder(root: Path, folders: Sequence[str] = (".",)) -> Listing:
    """Every picture of a folder; its ``label`` is the first sub-folder, None where it is in none.

    Args:
        root: The folder.
        folders: The sub-folders to look in; only these may be links.

    Returns:
        The pictures, also of formats that are not read.
    """
    names = [name for folder in folders for name in sorted(picture_files(root, folder))]
    labels = [folder if rest else None for folder, _, rest in (n.partition("/") for n in names)]
    return in_folder(root, names, {"label": labels})


def list_csv(table: Path) -> Listing:
    """The pictures in the column ``path`` of a CSV; its other columns are those of the list."""
    columns, rows = read_table(table)
    others = {name: [row[name] for row in rows] for name in columns if name != "path"}
    return in_folder(table.parent, [row["path"] for row in rows], others)


def read_table(path: Path, needed: str | None = "path") -> tuple[list[str], list[dict[str, str]]]:
    """The columns and rows of a CSV, separated by commas, semicolons or tabs.

    Args:
        path: The file, in UTF-8; its first line names the columns.
        needed: A column that must be there.

    Returns:
        The names of the columns, and for each row its values by name.

    Raises:
        BadInput: The file cannot be read, ``needed`` is missing, or a row has too few or many
            values.
    """
    try:
        raw = io.BufferedReader(open_regular(path))
        with io.TextIOWrapper(raw, newline="", encoding="utf-8-sig") as file:
            header = file.readline()
            file.seek(0)
            separator = max(SEPARATORS, key=header.count)  # a comma where there is one column
            reader = csv.DictReader(file, strict=True, delimiter=separator)
            columns = [name.strip() for name in reader.fieldnames or []]
            reader.fieldnames = columns
            rows = list(reader)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise BadInput(f"cannot read {path}: {error}") from error
    if len(set(columns)) < len(columns):
        raise BadInput(f"{path}: a column occurs twice")
    if needed is not None and needed not in columns:
        raise BadInput(
            f"{path}: the column '{needed}' is missing; the first line names the columns"
        )
    for line, row in enumerate(rows, 2):
        if None in row or None in row.values():
            raise BadInput(f"{path}, row {line}: {len(columns)} values expected")
    return columns, rows


@contextmanager
def explain_unreadable(path: Path) -> Iterator[None]:
    """Refuse a Parquet file that cannot be read, in one sentence."""
    import pyarrow

    try:
        yield
    except (pyarrow.ArrowException, OSError, UnicodeError) as error:
        reason = str(error).partition("\n")[0]
        raise BadInput(f"cannot read '{path}': {reason}") from error


def list_parquet(
    root: Path, needed: Sequence[str] = (), wanted: Sequence[str] | None = None
) -> Listing:
    """The rows of a Parquet file, or of a folder of them, whose column ``image`` has the bytes.

    Args:
        root: The file or folder.
        needed: Columns that every file must have besides ``image``.
        wanted: The columns that are listed; None: all that are not nested, those but ``label`` and
            ``split`` as text.

    Returns:
        The rows of all files, in the order of the files' names.

    Raises:
        BadInput: There is no file, one cannot be read, or a column is missing.
    """
    import pyarrow
    import pyarrow.parquet

    home, paths = _files_in(root, "**/*.parquet")
    names: list[str] = []
    files: list[str] = []
    groups: list[tuple[str, int, int]] = []
    counts: list[int] = []
    tables: list[Any] = []
    for path in paths:
        with explain_unreadable(path):
            file = pyarrow.parquet.ParquetFile(path)
            fields = file.schema_arrow
        for column in ("image", *needed):
            if column not in fields.names:
                hint = did_you_mean(column, fields.names)
                raise BadInput(f"{path}: the column '{column}' is missing; {hint}")
        flat = [one.name for one in fields if not pyarrow.types.is_nested(one.type)]
        chosen = flat if wanted is None else [name for name in fields.names if name in wanted]
        with explain_unreadable(path):
            table = file.read(columns=[name for name in chosen if name != "image"])
        tables.append(table)
        names += [f"{path.relative_to(home).as_posix()}/{row}" for row in range(len(table))]
        files += [str(path)] * len(table)
        for group in range(file.num_row_groups):
            groups.append((str(path), group, path.stat().st_mtime_ns))
            counts.append(file.metadata.row_group(group).num_rows)
    try:
        table = pyarrow.concat_tables(tables, promote_options="default")
    except pyarrow.ArrowException as error:
        raise BadInput(f"the files in {root} have columns of different types: {error}") from error
    columns: dict[str, list[Any]] = {}
    for name in table.column_names:
        values = table[name]
        if name not in ("label", "split"):
            try:
                values = values.cast(pyarrow.large_string())
            except pyarrow.ArrowException:  # bytes, which are no text
                continue
        columns[name] = values.to_pylist()
    first = np.cumsum([0, *counts])[:-1]
    return Listing(home, names, files, partial(_parquet_bytes, groups, first), columns)


def _parquet_bytes(
    groups: list[tuple[str, int, int]], first: NDArray[np.int64], index: int
) -> bytes:
    group = int(np.searchsorted(first, index, "right")) - 1
    value = _row_group(*groups[group])[index - int(first[group])].as_py()
    data = value["bytes"] if isinstance(value, dict) else value
    if not isinstance(data, bytes):
        raise OSError("the column 'image' has no bytes there")
    return data


@lru_cache(ROW_GROUPS)
def _row_group(path: str, number: int, written: int) -> Any:  # noqa: ARG001
    """The images of a row group; another one once the file is ``written`` again."""
    import pyarrow.parquet

    file = pyarrow.parquet.ParquetFile(path)
    return file.read_row_group(number, columns=["image"])["image"]


def list_webdataset(root: Path, wanted: Sequence[str] | None = None) -> Listing:
    """The samples of a tar archive, or of a folder of them.

    Files of one name, but for the suffix, are a sample: ``0001.jpg`` is the image, ``0001.cls`` or
    ``0001.txt`` has its label, or ``0001.json`` has it under ``label``, beside other columns.

    Args:
        root: The archive or folder.
        wanted: The columns that are listed; None: all that are texts or numbers.

    Returns:
        The samples with an image, in the order of the archives' names.

    Raises:
        BadInput: There is no archive, or one cannot be read.
    """
    home, shards = _files_in(root, "*.tar")
    names: list[str] = []
    files: list[str] = []
    places: list[tuple[Path, int, int]] = []
    samples: list[dict[str, Any]] = []
    for shard in shards:
        for key, image, about in _samples_of(shard):
            names.append(f"{shard.name}/{image.name}")
            files.append(str(shard))
            places.append((shard, image.offset_data, image.size))
            known = _about_sample(shard, key, about).items()
            samples.append({name: one for name, one in known if wanted is None or name in wanted})
    found = dict.fromkeys(name for one in samples for name in one)
    columns = {name: [_plain(one.get(name)) for one in samples] for name in found}
    return Listing(home, names, files, partial(_member, places), columns)


def _member(places: list[tuple[Path, int, int]], index: int) -> bytes:
    shard, start, size = places[index]
    with open_regular(shard) as file:
        return os.pread(file.fileno(), size, start)


def _samples_of(shard: Path) -> list[tuple[str, tarfile.TarInfo, dict[str, bytes]]]:
    """The samples with an image: its name, its place, and the small files with its class."""
    images: dict[str, tarfile.TarInfo] = {}
    about: dict[str, dict[str, bytes]] = {}
    try:
        with tarfile.open(shard, "r:") as archive:  # members of compressed ones have no place
            for member in archive:
                if not member.isfile() or member.issparse():  # of holes, not in one piece
                    continue
                folder, _, name = member.name.rpartition("/")
                stem, _, suffix = name.partition(".")
                key, kind = f"{folder}/{stem}".removeprefix("/"), f".{suffix.lower()}"
                if kind in IMAGE_SUFFIXES:
                    images[key] = member
                elif kind in LABEL_FILES and (file := archive.extractfile(member)) is not None:
                    about.setdefault(key, {})[kind] = file.read()
    except (tarfile.TarError, OSError) as error:
        raise BadInput(f"cannot read the shard {shard}: {error}") from error
    return [(key, image, about.get(key, {})) for key, image in images.items()]


def _about_sample(shard: Path, key: str, about: dict[str, bytes]) -> dict[str, Any]:
    """What the small files of a sample say: its label, and the other keys of its JSON."""
    try:
        if ".json" in about:
            return dict(parse_json(about[".json"]))
        label = (about.get(".cls") or about.get(".txt") or b"").decode().strip()
    except (ValueError, TypeError) as error:
        raise BadInput(f"the sample '{key}' of {shard} has an unreadable class: {error}") from None
    return {"label": label}


def _plain(value: Any) -> str | int | float | None:
    """A text or number; None for everything else, and for an empty text."""
    return value if isinstance(value, str | int | float) and value != "" else None


def _files_in(root: Path, pattern: str) -> tuple[Path, list[Path]]:
    """The files of a folder, or the file itself; and what their names are relative to."""
    found = [root] if root.is_file() else sorted(filter(Path.is_file, root.glob(pattern)))
    if not found:
        raise BadInput(f"'{root}' has no {Path(pattern).suffix} file")
    return (root if root.is_dir() else root.parent), found
