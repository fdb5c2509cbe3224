"""One state of an index in a folder: files that are written once and then only read.

``vectors.npy``, ``ids.npy`` and ``labels.npy`` have a row a picture, ``items.jsonl`` the rest.
"""

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lookalike.files import write_json
from lookalike.inference.encoder import Vectors
from lookalike.search.items import Record, RecordTable, write_records

__all__ = ["Generation", "write_generation"]

ROWS_AT_A_TIME = 65_536


class Generation:
    """The files of one state, mapped into memory; ``ValueError`` if they do not fit together."""

    def __init__(self, folder: Path, count: int, dim: int) -> None:
        self.vectors: Vectors = mapped(folder / "vectors.npy", (count, dim), np.float32)
        self.ids: NDArray[np.int64] = mapped(folder / "ids.npy", (count,), np.int64)
        self.codes: NDArray[np.int32] = mapped(folder / "labels.npy", (count,), np.int32)
        names = json.loads((folder / "label_names.json").read_text(encoding="utf-8"))
        self.label_names: list[str] = list(names)
        self.records = RecordTable(folder)
        if len(self.records) != count:
            raise ValueError(f"there are {len(self.records)} items and {count} vectors")
        if count and not -1 <= self.codes.min() <= self.codes.max() < len(self.label_names):
            raise ValueError("labels.npy names labels that are not there")
        if count and not (np.diff(self.ids) > 0).all():
            raise ValueError("ids.npy does not ascend")

    @cached_property
    def labels(self) -> list[str | None]:
        """The label of each row; code -1 is none."""
        names = [*self.label_names, None]
        return [names[code] for code in self.codes]


def mapped(path: Path, shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
    """An array in a file, which must have this shape; writing to it changes no file."""
    try:
        array: NDArray[Any] = np.load(path, mmap_mode="c" if shape[0] else None, allow_pickle=False)
    except EOFError as error:
        raise ValueError(f"{path.name} is cut off") from error
    if array.shape != shape or array.dtype != dtype:
        raise ValueError(f"{path.name} is {array.dtype} {array.shape}, not {shape}")
    return array


def write_generation(
    folder: Path,
    former: Generation,
    kept: NDArray[np.int64],
    records: Sequence[Record],
    vectors: Vectors,
    first_id: int,
) -> int:
    """Write the ``kept`` rows of a former state, then new pictures; return how many there are."""
    folder.mkdir()
    count = len(kept) + len(records)
    write_vectors(folder / "vectors.npy", former.vectors, kept, vectors)
    new_ids = np.arange(first_id, first_id + len(records), dtype=np.int64)
    np.save(folder / "ids.npy", np.concatenate([former.ids[kept], new_ids]))
    old = [former.label_names[code] for code in sorted(set(former.codes[kept].tolist()) - {-1})]
    names = sorted({*old, *(record.label for record in records if record.label is not None)})
    number = {name: code for code, name in enumerate(names)}
    # The last entry stands for -1, a picture without label.
    renumbered = np.array([number.get(name, -1) for name in former.label_names] + [-1], np.int32)
    new_codes = [-1 if r.label is None else number[r.label] for r in records]
    codes = np.concatenate([renumbered[former.codes[kept]], np.array(new_codes, np.int32)])
    np.save(folder / "labels.npy", codes)
    write_json(folder / "label_names.json", names)
    write_records(folder, chained(former.records, kept, records))
    for path in folder.iterdir():
        flush(path)
    flush(folder)
    return count


def write_vectors(path: Path, former: Vectors, kept: NDArray[np.int64], new: Vectors) -> None:
    """Old rows and new ones in one file, a block at a time."""
    count = len(kept) + len(new)
    if not count:
        np.save(path, new)
        return
    target = np.lib.format.open_memmap(path, "w+", np.float32, (count, new.shape[1]))
    for start in range(0, len(kept), ROWS_AT_A_TIME):
        some = kept[start : start + ROWS_AT_A_TIME]
        target[start : start + len(some)] = former[some]
    target[len(kept) :] = new
    target.flush()


def chained(
    former: Sequence[Record], kept: Iterable[int], records: Iterable[Record]
) -> Iterator[Record]:
    """The kept records, then the new ones."""
    for row in kept:
        yield former[int(row)]
    yield from records


def flush(path: Path) -> None:
    """Wait until a file or folder has reached the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
