"""Pictures of any source straight into an index, without files of vectors between."""

import time

import numpy as np

from lookalike.inference.bulk.device import Device
from lookalike.inference.bulk.job import Options
from lookalike.inference.bulk.listing import Skipped
from lookalike.inference.bulk.pipeline import embed_windows
from lookalike.inference.bulk.source import Source
from lookalike.inference.encoder import Vectors
from lookalike.progress import Watcher
from lookalike.search.importing import records_of
from lookalike.search.index import Index
from lookalike.search.items import Added, Record
from lookalike.search.sources import SECONDS_BETWEEN_COMMITS

__all__ = ["embed_into"]

BLOCK = 65_536


def embed_into(
    index: Index, source: Source, options: Options | None = None, watcher: Watcher | None = None
) -> Added:
    """Embed the pictures of a source by the index's own model; unchanged ones are left alone.

    What has been embedded is committed every minute; the same call completes what was killed.

    Args:
        index: Where they go.
        source: A folder, CSV, Parquet, WebDataset or store.
        options: Device, precision, batch and threads.
        watcher: Is told the progress.

    Returns:
        How many pictures were new, changed, unchanged, and which were skipped.
    """
    options, watcher = options or Options(), watcher or Watcher()
    done = Added(skipped=list(source.skipped))
    root = index.root_number(source.root)
    waiting, replaced = _waiting(index, source, root)
    done.unchanged = len(source) - len(waiting)
    device = Device(index.embedder, options.device, options.precision)
    sizes = range(0, len(waiting), options.batch)
    windows = (waiting[start : start + options.batch] for start in sizes)
    kept: list[int] = []
    parts: list[Vectors] = []

    def commit() -> None:
        records = records_of(source.table.take(kept), root)
        index.commit(records, np.concatenate(parts))
        done.changed += (again := len(replaced.intersection(kept)))
        done.new += len(kept) - again

    last, seen = time.monotonic(), 0
    for window in embed_windows(device, source.read, windows, threads=options.threads):
        kept += window.kept
        parts.append(window.vectors)
        done.skipped += [Skipped(source.path_of(row), reason) for row, reason in window.skipped]
        seen += len(window.rows)
        watcher.stage("embedding", seen, len(waiting))
        if kept and time.monotonic() - last > SECONDS_BETWEEN_COMMITS:
            commit()
            kept, parts, last = [], [], time.monotonic()
    if kept:
        commit()
    index.optimize(watcher)
    return done


def _waiting(index: Index, source: Source, root: int) -> tuple[list[int], set[int]]:
    """The rows that are new or have changed, and which of them have changed."""
    waiting: list[int] = []
    replaced: set[int] = set()
    for start in range(0, len(source), BLOCK):
        records = records_of(source.table.slice(start, BLOCK), root)
        ids = index.ids_of(records)
        there = np.flatnonzero(ids >= 0)
        stored: dict[int, Record] = dict(
            zip(there.tolist(), index.records_of(ids[there].tolist()), strict=True)
        )
        for place, record in enumerate(records):
            if stored.get(place) != record:
                waiting.append(start + place)
                if place in stored:
                    replaced.add(start + place)
    return waiting, replaced
