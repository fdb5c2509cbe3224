"""The pictures to index, from a folder or a CSV: listed, read and embedded."""

import os
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from torch import Tensor

from lookalike.data.csv_table import read_table
from lookalike.data.image_files import IMAGE_SUFFIXES, OTHER_FORMATS, reason_of_format
from lookalike.errors import BadInput
from lookalike.inference.embedder import Embedder
from lookalike.inference.encoder import Vectors
from lookalike.inference.pictures import Unreadable, read_picture
from lookalike.progress import Watcher
from lookalike.search.items import Record, Skipped

SECONDS_BETWEEN_COMMITS = 60.0
BATCH = 64


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
    all other columns are kept as metadata. Links that lead out of ``root`` are skipped.
    """
    source = source.expanduser()
    if not source.exists():
        raise BadInput(f"there is no folder or CSV '{source}'")
    table = not source.is_dir()
    home = (source.parent if table else source).resolve()
    root = home if root is None else root.resolve()
    if not home.is_relative_to(root):
        raise BadInput(f"'{source}' is not in '{root}'")
    found = rows_of(source, home) if table else files_of(home)
    records: list[Record] = []
    skipped: list[Skipped] = []
    seen: set[str] = set()
    for record in found:
        path = (home / record.path).relative_to(root).as_posix() if home != root else record.path
        label = record.label if table else path.rpartition("/")[0].partition("/")[0] or None
        reason = "it is listed twice" if path in seen else refusal(root, path)
        seen.add(path)
        if reason:
            skipped.append(Skipped(path.encode(errors="replace").decode(), reason))
            continue
        status = (root / path).stat()
        size, modified = status.st_size, status.st_mtime_ns
        records.append(replace(record, path=path, label=label, size=size, modified=modified))
    return Listing(root, records, skipped)


def require_pictures(source: Path) -> None:
    """Refuse a folder or CSV without a single picture that can be read."""
    listing = list_pictures(source)
    reasons = [f"{skipped.path}: {skipped.reason}" for skipped in listing.skipped[:1]]
    if not listing.records:
        raise BadInput(": ".join([f"there is no picture in '{source}'", *reasons]))
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


def file_inside(root: Path, path: str) -> Path | None:
    """The real file behind ``path``; None where that is not a file under ``root``."""
    try:
        real = (root / path).resolve(strict=True)
    except (OSError, RuntimeError, ValueError):
        return None
    return real if real.is_relative_to(root) and real.is_file() else None


def refusal(root: Path, path: str) -> str:
    """Why a file cannot be indexed; empty where it can."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return "its name is not UTF-8"
    if Path(path).suffix.lower() in OTHER_FORMATS:
        return reason_of_format(Path(path).suffix)
    if file_inside(root, path) is not None:
        return ""
    there = (root / path).exists()
    return f"it is not a file under '{root}'" if there else "there is no such file"


def files_of(folder: Path) -> Iterator[Record]:
    """Every picture below a folder, by name, without hidden ones."""
    for where, inner, names in os.walk(folder):
        inner[:] = sorted(name for name in inner if not name.startswith("."))
        here = Path(where).relative_to(folder)
        for name in sorted(names):
            suffix = Path(name).suffix.lower()
            if not name.startswith(".") and suffix in IMAGE_SUFFIXES | OTHER_FORMATS:
                yield Record((here / name).as_posix())


def rows_of(table: Path, home: Path) -> Iterator[Record]:
    """Every row of a CSV, with a normalized path."""
    _, rows = read_table(table)
    for line, row in enumerate(rows, 2):
        path = row.pop("path")
        if not path or "\0" in path:
            raise BadInput(f"{table}, row {line}: path must not be empty")
        label = row.pop("label", None) or None
        yield Record(os.path.relpath(home / path, home), label, row)


def embed_files(
    embedder: Embedder,
    root: Path,
    records: Sequence[Record],
    skipped: list[Skipped],
    watcher: Watcher,
) -> Iterator[tuple[list[Record], Vectors]]:
    """Records with their vectors, about a minute's work at a time; ``skipped`` gets the others."""

    def prepare(record: Record) -> Tensor | Skipped:
        try:
            return embedder.prepare(read_picture(root / record.path))
        except Unreadable as error:
            return Skipped(record.path, error.reason)

    kept: list[Record] = []
    parts: list[Vectors] = []
    last = time.monotonic()
    with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
        for start in range(0, len(records), BATCH):
            some = records[start : start + BATCH]
            pixels: list[Tensor] = []
            for record, read in zip(some, pool.map(prepare, some), strict=True):
                if isinstance(read, Skipped):
                    skipped.append(read)
                else:
                    pixels.append(read)
                    kept.append(record)
            parts.append(embedder.embed_prepared(pixels, BATCH))
            watcher.stage("embedding", start + len(some), len(records))
            if kept and time.monotonic() - last > SECONDS_BETWEEN_COMMITS:
                yield kept, np.concatenate(parts)
                kept, parts, last = [], [], time.monotonic()
    if kept:
        yield kept, np.concatenate(parts)
