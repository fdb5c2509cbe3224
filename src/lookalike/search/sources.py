"""The pictures to index, from a folder or a CSV: listed, read and embedded."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from lookalike.errors import BadInput
from lookalike.inference.bulk.device import Device
from lookalike.inference.bulk.listing import Skipped, file_inside, home_of, list_files
from lookalike.inference.bulk.pipeline import BATCH, embed_windows, windows_of
from lookalike.inference.encoder import Encoder, Vectors
from lookalike.inference.pictures import Unreadable, read_picture
from lookalike.progress import Watcher
from lookalike.search.items import Record

__all__ = ["Listing", "embed_files", "file_inside", "list_pictures", "require_pictures"]

SECONDS_BETWEEN_COMMITS = 60.0


@dataclass(frozen=True)
class Listing:
    """The pictures found under ``root``, and those that cannot be used."""

    root: Path
    records: list[Record]
    skipped: list[Skipped]


def list_pictures(source: Path, root: Path | None = None) -> Listing:
    """Every picture of ``source``, a folder or a CSV, named relative to ``root``.

    Without ``root`` that is the folder itself, or the folder that the CSV lies in.
    """
    records: list[Record] = []
    skipped: list[Skipped] = []
    for one in list_files(source, root):
        if isinstance(one, Skipped):
            skipped.append(one)
        else:
            records.append(Record(**vars(one)))
    return Listing(home_of(source) if root is None else root.resolve(), records, skipped)


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


def embed_files(
    encoder: Encoder,
    root: Path,
    records: Sequence[Record],
    skipped: list[Skipped],
    watcher: Watcher,
) -> Iterator[tuple[list[Record], Vectors]]:
    """Records with their vectors, about a minute's work at a time; ``skipped`` gets the others.

    Pictures are decoded while the network computes, on a GPU where there is one.
    """
    kept: list[Record] = []
    parts: list[Vectors] = []
    last, done = time.monotonic(), 0
    windows = windows_of(range(len(records)), BATCH)
    for window in embed_windows(
        Device(encoder), lambda row: read_picture(root / records[row].path), windows
    ):
        kept += [records[row] for row in window.kept]
        parts.append(window.vectors)
        skipped += [Skipped(records[row].path, reason) for row, reason in window.skipped]
        done += len(window.rows)
        watcher.stage("embedding", done, len(records))
        if kept and time.monotonic() - last > SECONDS_BETWEEN_COMMITS:
            yield kept, np.concatenate(parts)
            kept, parts, last = [], [], time.monotonic()
    if kept:
        yield kept, np.concatenate(parts)
