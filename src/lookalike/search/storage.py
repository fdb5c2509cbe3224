"""The files of an index in a folder: the manifest, and the state that it names.

A state is written once and then only read: ``vectors.npy``, ``ids.npy`` and ``labels.npy`` have one
row per picture, ``items.jsonl`` one line. ``index.json`` says which state is valid and is replaced
in one step: whatever kills a writer, a reader finds the state before or the state after.
"""

import fcntl
import json
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Self, overload

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, ValidationError

from lookalike.errors import BadInput, LookalikeError
from lookalike.files import write_json
from lookalike.inference.encoder import Vectors
from lookalike.search.approximate import BLOCK, Approximation
from lookalike.search.items import Record

FORMAT = "lookalike-index"
VERSION = 1
STATE = "state-"
FAST = "fast-"


class Manifest(BaseModel):
    """The content of ``index.json``."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: str = FORMAT
    version: int = VERSION
    model: str
    dim: int
    state: int = 0
    count: int = 0
    next_id: int = 0
    roots: tuple[str, ...] = ()
    sizes: dict[str, int] = {}
    fast: Approximation | None = None

    @property
    def folder(self) -> str:
        """The name of the state's folder."""
        return f"{STATE}{self.state:06d}"

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Read ``index.json``; refuse what is not an index, or has another version."""
        try:
            values = json.loads((folder / "index.json").read_text(encoding="utf-8"))
        except OSError as error:
            reason = f"there is no index '{folder}'"
            if folder.exists():
                reason = f"'{folder}' is not an index: it has no index.json"
            hint = "'lookalike index RUN photos/ -o shop.index' makes one"
            raise BadInput(f"{reason}; {hint}") from error
        except ValueError as error:
            raise damaged(folder, "index.json is not JSON") from error
        if not isinstance(values, dict) or values.get("format") != FORMAT:
            raise BadInput(f"'{folder}' is not an index of lookalike")
        if values.get("version") != VERSION:
            raise BadInput(
                f"the index '{folder}' has version {values.get('version')}, and this lookalike "
                f"reads version {VERSION}; make it again"
            )
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            raise damaged(folder, "index.json") from error

    def write(self, folder: Path) -> None:
        """Make the state valid, in one step, and remove all others."""
        write_json(folder / "index.json", self.model_dump(mode="json"))
        fsync(folder)
        self.remove_unused(folder)

    def remove_unused(self, folder: Path) -> None:
        """Remove former states and what killed writers left."""
        used = {self.folder} | ({self.fast.file} if self.fast else set())
        for path in folder.iterdir():
            if path.name in used:
                continue
            if path.name.startswith(STATE):
                shutil.rmtree(path, ignore_errors=True)
            elif path.name.startswith((FAST, ".index.json.")):
                path.unlink(missing_ok=True)


@dataclass(frozen=True)
class State:
    """Row ``i`` of each field is one picture; code -1 of ``codes`` is no label."""

    vectors: Vectors
    ids: NDArray[np.int64]
    codes: NDArray[np.int32]
    label_names: list[str]
    records: Sequence[Record]

    @classmethod
    def empty(cls, dim: int) -> Self:
        """A state without pictures."""
        none = np.empty(0, np.int64)
        return cls(np.empty((0, dim), np.float32), none, none.astype(np.int32), [], [])

    @classmethod
    def open(cls, folder: Path, manifest: Manifest) -> Self:
        """Map the files of the valid state into memory; ``BadInput`` if they are damaged."""
        path, count = folder / manifest.folder, manifest.count
        for name, size in manifest.sizes.items():
            check_size(folder, path / name, size)
        try:
            state = cls(
                mapped(path / "vectors.npy", (count, manifest.dim), np.float32),
                mapped(path / "ids.npy", (count,), np.int64),
                mapped(path / "labels.npy", (count,), np.int32),
                list(json.loads((path / "label_names.json").read_text(encoding="utf-8"))),
                RecordTable(path),
            )
        except ValueError as error:
            raise damaged(folder, str(error)) from error
        if len(state.records) != count:
            raise damaged(folder, f"there are {len(state.records)} items and {count} vectors")
        if count and not -1 <= state.codes.min() <= state.codes.max() < len(state.label_names):
            raise damaged(folder, "labels.npy names labels that are missing")
        if not (np.diff(state.ids) > 0).all():
            raise damaged(folder, "ids.npy is not ascending")
        return state


def write_state(
    folder: Path,
    former: State,
    kept: NDArray[np.int64],
    records: Sequence[Record],
    vectors: Vectors,
    first_id: int,
) -> dict[str, int]:
    """Write the ``kept`` rows of a former state, then new pictures; return the files' sizes."""
    folder.mkdir()
    write_vectors(folder / "vectors.npy", former.vectors, kept, vectors)
    new_ids = np.arange(first_id, first_id + len(records), dtype=np.int64)
    np.save(folder / "ids.npy", np.concatenate([former.ids[kept], new_ids]))
    old = {former.label_names[code] for code in set(former.codes[kept].tolist()) - {-1}}
    names = sorted(old | {record.label for record in records if record.label is not None})
    number = {name: code for code, name in enumerate(names)}
    # The last entry stands for -1, a picture without label.
    renumbered = np.array([number.get(name, -1) for name in former.label_names] + [-1], np.int32)
    new_codes = [-1 if r.label is None else number[r.label] for r in records]
    codes = np.concatenate([renumbered[former.codes[kept]], np.array(new_codes, np.int32)])
    np.save(folder / "labels.npy", codes)
    write_json(folder / "label_names.json", names)
    starts = [0]
    with (folder / "items.jsonl").open("wb") as lines:
        for record in chain((former.records[int(row)] for row in kept), records):
            line = json.dumps(asdict(record), ensure_ascii=False, separators=(",", ":")) + "\n"
            starts.append(starts[-1] + lines.write(line.encode()))
    np.save(folder / "starts.npy", np.array(starts, np.int64))
    for path in folder.iterdir():
        fsync(path)
    fsync(folder)
    return {path.name: path.stat().st_size for path in sorted(folder.iterdir())}


def write_vectors(path: Path, former: Vectors, kept: NDArray[np.int64], new: Vectors) -> None:
    """Old rows and new ones in one file, a block at a time."""
    count = len(kept) + len(new)
    if not count:
        np.save(path, new)
        return
    target = np.lib.format.open_memmap(path, "w+", np.float32, (count, new.shape[1]))
    for start in range(0, len(kept), BLOCK):
        some = kept[start : start + BLOCK]
        target[start : start + len(some)] = former[some]
    target[len(kept) :] = new
    target.flush()


class RecordTable(Sequence[Record]):
    """The lines of ``items.jsonl``, parsed one by one when they are needed."""

    def __init__(self, folder: Path) -> None:
        starts = folder / "starts.npy"
        self._starts: NDArray[np.int64] = np.load(starts, mmap_mode="r", allow_pickle=False)
        path = folder / "items.jsonl"
        length = path.stat().st_size
        self._text = np.memmap(path, np.uint8, "r") if length else np.empty(0, np.uint8)
        if int(self._starts[-1]) != length:
            raise ValueError("items.jsonl is not as long as starts.npy says")

    def __len__(self) -> int:
        return len(self._starts) - 1

    @overload
    def __getitem__(self, row: int) -> Record: ...
    @overload
    def __getitem__(self, row: slice) -> list[Record]: ...
    def __getitem__(self, row: int | slice) -> Record | list[Record]:
        if isinstance(row, slice):
            return [self[i] for i in range(*row.indices(len(self)))]
        row = range(len(self))[row]
        line = self._text[self._starts[row] : self._starts[row + 1]]
        return Record(**json.loads(bytes(line)))


def mapped(path: Path, shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
    """An array in a file, which must have this shape; writing to it changes no file."""
    try:
        array: NDArray[Any] = np.load(path, mmap_mode="c" if shape[0] else None, allow_pickle=False)
    except EOFError as error:
        raise ValueError(f"{path.name} is cut off") from error
    if array.shape != shape or array.dtype != dtype:
        raise ValueError(f"{path.name} is {array.dtype} {array.shape}, not {shape}")
    return array


def check_size(folder: Path, path: Path, size: int) -> None:
    """Refuse an index of which a file does not have the size that it was written with."""
    if path.stat().st_size != size:
        raise damaged(folder, f"{path.name} does not have {size} bytes")


def damaged(folder: Path, reason: str) -> BadInput:
    """The error for an index that cannot be trusted."""
    return BadInput(f"the index '{folder}' is damaged: {reason}; make it again")


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Let one process write; a second one gets an error."""
    with (folder / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise LookalikeError(f"another process is writing to '{folder}'") from None
        yield


def fsync(path: Path) -> None:
    """Wait until a file or folder has reached the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
