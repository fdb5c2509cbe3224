"""An index of version 1 becomes one of version 2; ids, records and vectors stay the same.

Version 1 kept everything in one folder ``state-N``: ``vectors.npy``, ``ids.npy`` and
``items.jsonl``, a line of JSON per picture. A killed upgrade leaves the old index valid, and can be
repeated: ``index.json`` is replaced last.
"""

import time
from pathlib import Path
from typing import Any

import numpy as np

from lookalike.errors import BadInput
from lookalike.files import parse_json
from lookalike.progress import Watcher
from lookalike.search.folder import disk, keys, table, vectors
from lookalike.search.folder.manifest import SEGMENTS, VERSION, Manifest, SegmentNote, read_values
from lookalike.search.folder.segment import IDS, KEYS
from lookalike.search.folder.writer import remove_unused
from lookalike.search.items import Record

NAME = "s000000"


def upgrade(folder: Path, watcher: Watcher) -> int:
    """Upgrade the index in a folder.

    Args:
        folder: The folder of the index.
        watcher: Is told the progress.

    Returns:
        The version that it had.
    """
    found = read_values(folder)
    if found.get("version") == VERSION:
        Manifest.read(folder)
        return VERSION
    if found.get("version") != 1:
        raise BadInput(
            f"the index '{folder}' has version {found.get('version')} by its index.json; make it "
            "again"
        )
    with disk.locked(folder):
        values = read_values(folder)
        if values.get("version") != 1:  # another process was faster
            return 1
        try:
            note = _write(folder, values, watcher)
            following = Manifest(
                model=values["model"],
                dim=values["dim"],
                generation=values["state"] + 1,
                updated=time.time(),
                next_id=values["next_id"],
                next_name=1,
                roots=tuple(values["roots"]),
                segments=(note,) if note else (),
            )
        except FileNotFoundError as error:
            raise disk.damaged(folder, f"'{error.filename}' is missing") from error
        except (KeyError, TypeError, ValueError) as error:
            if isinstance(error, BadInput):
                raise
            raise disk.damaged(folder, str(error)) from error
        following.write(folder)
        remove_unused(folder, following)
    return 1


def _write(folder: Path, values: dict[str, Any], watcher: Watcher) -> SegmentNote | None:
    """The one segment of the upgraded index; None: it has no pictures."""
    state = folder / f"state-{values['state']:06d}"
    for name, size in values["sizes"].items():
        if (state / name).stat().st_size != size:
            raise disk.damaged(folder, f"{name} does not have {size} bytes")
    count = values["count"]
    ids = disk.mapped(state / "ids.npy", (count,), np.int64)
    stored = disk.mapped(state / "vectors.npy", (count, values["dim"]), np.float32)
    home = folder / SEGMENTS / NAME
    disk.remove(home)
    home.mkdir(parents=True)
    if not count:
        return None
    records = []
    with (state / "items.jsonl").open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            records.append(Record(**parse_json(line)))
            if number % 10_000 == 0:
                watcher.stage("upgrading", number, count)
    if len(records) != count or not (np.diff(ids) > 0).all():
        raise disk.damaged(folder, f"there are {len(records)} items and {count} vectors")
    columns = table.columns_of(records)
    # What is not a finite vector is like nothing; 'index check' names it.
    bad = ~np.isfinite(stored).all(axis=1)
    vectors.write(home, vectors.encode(np.where(bad[:, None], 0, stored), "float32"))
    np.save(home / IDS, ids)
    np.save(home / KEYS, keys.sorted_keys(keys.hash_keys(record.key for record in records)))
    table.write_records(home / table.FILE, records, columns)
    return SegmentNote(
        name=NAME,
        count=count,
        first=int(ids[0]),
        last=int(ids[-1]),
        columns=columns,
        files=disk.settle(home),
    )
