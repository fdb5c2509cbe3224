"""The labels of an index by number, counted once."""

import threading
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lookalike.search.index import Index

__all__ = ["LabelTable", "Labels"]


@dataclass(frozen=True)
class LabelTable:
    """Sorted names, how many pictures each has, and the number of each row's label (-1: none)."""

    names: list[str]
    counts: list[int]
    codes: NDArray[np.int32]

    def rows(self, label: str | None) -> NDArray[np.int64]:
        """The rows with a label; None: all."""
        if label is None:
            return np.arange(len(self.codes))
        if label not in self.names:
            return np.empty(0, np.int64)
        return np.flatnonzero(self.codes == self.names.index(label))


class Labels:
    """The table, made when first asked for: a large index takes seconds to read through."""

    def __init__(self, index: Index) -> None:
        self.index = index
        self._table: LabelTable | None = None
        self._lock = threading.Lock()

    def table(self) -> LabelTable:
        """The labels of every row."""
        with self._lock:
            if self._table is None:
                names = sorted(self.index.label_names)
                numbers: dict[str | None, int] = {name: i for i, name in enumerate(names)}
                codes = np.fromiter(
                    (numbers.get(label, -1) for label in self.index.labels),
                    np.int32,
                    len(self.index),
                )
                counts = np.bincount(codes[codes >= 0], minlength=len(names))
                self._table = LabelTable(names, counts.tolist(), codes)
            return self._table
