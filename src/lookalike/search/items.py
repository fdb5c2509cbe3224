"""What is known of each indexed picture, in a file that is read where it is needed only."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

__all__ = ["Column", "Hit", "Item", "Record", "RecordTable", "write_records"]


@dataclass(frozen=True)
class Item:
    """An indexed picture: ``path`` is relative to the folder that was indexed."""

    id: int
    path: str
    label: str | None
    metadata: dict[str, str]


@dataclass(frozen=True)
class Hit(Item):
    """An indexed picture and its cosine similarity with a query."""

    similarity: float


@dataclass(frozen=True)
class Record:
    """What an index keeps of a picture besides its id and vector.

    ``root`` counts the folders that were indexed; ``size`` and ``modified`` (nanoseconds) tell
    whether the file is still the one that was embedded.
    """

    path: str
    label: str | None = None
    metadata: dict[str, str] = field(default_factory=dict)
    root: int = 0
    size: int = -1
    modified: int = 0

    @property
    def key(self) -> tuple[int, str]:
        """What tells two pictures apart."""
        return self.root, self.path


def write_records(folder: Path, records: Iterable[Record]) -> int:
    """Write ``items.jsonl`` and where each line begins; return how many there are."""
    starts = [0]
    with (folder / "items.jsonl").open("wb") as lines:
        for record in records:
            line = json.dumps(asdict(record), ensure_ascii=False, separators=(",", ":")) + "\n"
            starts.append(starts[-1] + lines.write(line.encode()))
    np.save(folder / "starts.npy", np.array(starts, np.int64), allow_pickle=False)
    return len(starts) - 1


class RecordTable(Sequence[Record]):
    """The records that :func:`write_records` wrote, parsed one by one when asked for."""

    def __init__(self, folder: Path) -> None:
        self._starts: NDArray[np.int64] = np.load(
            folder / "starts.npy", mmap_mode="r", allow_pickle=False
        )
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
        if not -len(self) <= row < len(self):
            raise IndexError(f"row {row} of {len(self)}")
        row %= len(self)
        line = bytes(self._text[self._starts[row] : self._starts[row + 1]])
        values: dict[str, Any] = json.loads(line)
        return Record(**values)

    def __iter__(self) -> Iterator[Record]:
        return (self[row] for row in range(len(self)))


class Column(Sequence[Any]):
    """One field of every record."""

    def __init__(self, records: Sequence[Record], name: str) -> None:
        self._records = records
        self._name = name

    def __len__(self) -> int:
        return len(self._records)

    def __getitem__(self, row: int | slice) -> Any:
        if isinstance(row, slice):
            return [getattr(record, self._name) for record in self._records[row]]
        return getattr(self._records[row], self._name)
