"""Which pictures to index: those in a folder, or those that a CSV lists."""

import csv
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from lookalike.data.image_files import IMAGE_SUFFIXES
from lookalike.errors import BadInput
from lookalike.search.items import Record
from lookalike.search.reading import Unreadable, read_picture

__all__ = ["Listing", "Skipped", "inside", "list_pictures", "need_pictures"]


@dataclass(frozen=True)
class Skipped:
    """A picture that was left out, and why."""

    path: str
    reason: str


@dataclass(frozen=True)
class Listing:
    """The pictures found under ``root``, and those that cannot be used."""

    root: Path
    records: list[Record]
    skipped: list[Skipped]


def list_pictures(source: Path, root: Path | None = None) -> Listing:
    """Every picture of ``source``, a folder or a CSV, named relative to ``root``.

    Without ``root`` that is the folder itself, or the folder that the CSV lies in. In a folder the
    first sub-folder of a picture is its label; a CSV has a column ``path``, perhaps ``label``, and
    all other columns are kept as metadata. Links that lead out of ``root`` are left out.
    """
    source = source.expanduser()
    if not source.exists():
        raise BadInput(f"there is no folder or CSV '{source}'")
    table = not source.is_dir()
    home = (source.parent if table else source).resolve()
    root = home if root is None else root.resolve()
    if not home.is_relative_to(root):
        raise BadInput(f"'{source}' does not lie in '{root}'")
    found = rows_of(source, home) if table else files_of(home)
    records: list[Record] = []
    skipped: list[Skipped] = []
    seen: set[str] = set()
    for record in found:
        path = (home / record.path).relative_to(root).as_posix() if home != root else record.path
        label = record.label if table else first_folder(path)
        reason = "it is listed twice" if path in seen else refusal(root, path)
        seen.add(path)
        if reason:
            skipped.append(Skipped(path.encode(errors="replace").decode(), reason))
            continue
        status = (root / path).stat()
        records.append(
            Record(
                path,
                label,
                record.metadata,
                size=status.st_size,
                modified=status.st_mtime_ns,
            )
        )
    return Listing(root, records, skipped)


def need_pictures(source: Path) -> None:
    """Refuse a folder or CSV without a single picture that can be read."""
    listing = list_pictures(source)
    if not listing.records:
        why = f": {listing.skipped[0].path}: {listing.skipped[0].reason}" if listing.skipped else ""
        raise BadInput(f"there is no picture in '{source}'{why}")
    reasons = []
    for record in listing.records:
        try:
            read_picture(listing.root / record.path)
            return
        except Unreadable as error:
            reasons.append(f"{record.path}: {error.reason}")
    raise BadInput(
        f"none of the {len(reasons):,} pictures in '{source}' can be read; the first, {reasons[0]}"
    )


def first_folder(path: str) -> str | None:
    """The folder that a relative path begins with."""
    first, slash, _ = path.partition("/")
    return first if slash else None


def inside(root: Path, path: str) -> Path | None:
    """The real file behind ``path``; None where that is not a file under ``root``."""
    try:
        real = (root / path).resolve(strict=True)
    except (OSError, RuntimeError, ValueError):
        return None
    return real if real.is_relative_to(root) and real.is_file() else None


def refusal(root: Path, path: str) -> str:
    """Why a file cannot be indexed; nothing where it can."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return "its name is not UTF-8"
    if inside(root, path) is not None:
        return ""
    if os.path.lexists(root / path) and (root / path).exists():
        return f"it is not a file under '{root}'"
    return "there is no such file"


def files_of(folder: Path) -> Iterator[Record]:
    """Every picture below a folder, by name; hidden ones are passed over."""
    for where, inner, names in os.walk(folder):
        inner[:] = sorted(name for name in inner if not name.startswith("."))
        here = Path(where).relative_to(folder)
        for name in sorted(names):
            if not name.startswith(".") and Path(name).suffix.lower() in IMAGE_SUFFIXES:
                yield Record((here / name).as_posix())


def rows_of(table: Path, home: Path) -> Iterator[Record]:
    """Every row of a CSV, with its path in plain form."""
    try:
        with table.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file, strict=True)
            columns = reader.fieldnames or []
            if "path" not in columns:
                raise BadInput(f"{table}: the column 'path' is missing")
            if len(set(columns)) < len(columns):
                raise BadInput(f"{table}: a column is there twice")
            for line, row in enumerate(reader, 2):
                if None in row or None in row.values():
                    raise BadInput(f"{table}, row {line}: {len(columns)} values expected")
                path = row.pop("path")
                if not path or "\0" in path:
                    raise BadInput(f"{table}, row {line}: path must not be empty")
                label = row.pop("label", None) or None
                yield Record(os.path.relpath(home / path, home), label, row)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise BadInput(f"cannot read {table}: {error}") from error
