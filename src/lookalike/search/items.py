"""What an index stores, finds and says about a picture."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import pyarrow

from lookalike.inference.pictures import Skipped
from lookalike.inference.source import metadata_columns, metadata_name

__all__ = ["Added", "Column", "Hit", "Item", "Precision", "Record", "Skipped", "records_of"]

Precision: TypeAlias = Literal["float32", "float16"]
"""The type of the numbers of stored vectors."""


@dataclass(frozen=True)
class Record:
    """What an index stores about a picture besides its id and vector.

    Args:
        path: Relative to the folder that was indexed.
        label: Its label, where it has one.
        metadata: The other columns of its row in a CSV.
        root: The position of its folder among those that were indexed.
        size: The size of its file in bytes.
        modified: When its file was changed, in nanoseconds; with ``size`` this tells whether the
            file is still the one that was embedded.
    """

    path: str
    label: str | None = None
    metadata: dict[str, str] = field(default_factory=dict)
    root: int = 0
    size: int = -1
    modified: int = 0

    @property
    def key(self) -> tuple[int, str]:
        """What identifies a picture."""
        return self.root, self.path


@dataclass(frozen=True)
class Item:
    """An indexed picture.

    Args:
        id: Its number in the index.
        path: Relative to the folder that was indexed.
        label: Its label, where it has one.
        metadata: The other columns of its row in a CSV.
    """

    id: int
    path: str
    label: str | None
    metadata: dict[str, str]


@dataclass(frozen=True)
class Hit(Item):
    """An indexed picture that a query found.

    Args:
        similarity: Its cosine similarity with the query, at most 1.
    """

    similarity: float


@dataclass
class Added:
    """What became of the pictures that were given to an index.

    Args:
        new: How many were added.
        changed: How many were embedded again because their file had changed.
        unchanged: How many were in the index already.
        skipped: Those that cannot be used.
    """

    new: int = 0
    changed: int = 0
    unchanged: int = 0
    skipped: list[Skipped] = field(default_factory=list)

    def __str__(self) -> str:
        parts = [f"{self.new:,} new"]
        parts += [f"{self.changed:,} changed"] if self.changed else []
        parts += [f"{self.unchanged:,} unchanged"] if self.unchanged else []
        parts += [f"{len(self.skipped):,} skipped"] if self.skipped else []
        return ", ".join(parts)


class Column(Sequence[Any]):
    """One field of every record, read when it is needed."""

    def __init__(self, records: Sequence[Record], name: str) -> None:
        self._records = records
        self._name = name

    def __len__(self) -> int:
        return len(self._records)

    def __getitem__(self, row: Any) -> Any:
        found = self._records[row]
        several = isinstance(row, slice)
        return [getattr(r, self._name) for r in found] if several else getattr(found, self._name)


def records_of(table: pyarrow.Table, root: int) -> list[Record]:
    """Rows of a table of pictures as an index stores them."""
    metadata = metadata_columns(table.column_names)
    names = [metadata_name(column) for column in metadata]
    values = [table[column].to_pylist() for column in metadata]
    rows = zip(*values, strict=True) if values else ((),) * len(table)
    fixed = zip(
        *(table[name].to_pylist() for name in ("path", "label", "size", "modified")), strict=True
    )
    return [
        Record(
            path,
            label,
            {name: text for name, text in zip(names, texts, strict=True) if text is not None},
            root,
            -1 if size is None else size,
            modified or 0,
        )
        for (path, label, size, modified), texts in zip(fixed, rows, strict=True)
    ]
