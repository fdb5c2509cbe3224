"""The scores per test class of a row of a study: one compressed file beside the row's own.

    STUDY/<data set>/<method>.classes.npz

Arrays: ``classes`` and ``queries`` [C], ``metrics`` [M], ``cells`` [N, 2] (repeat and fold) with
``separate`` [N, C, M], ``repeats`` [R] with ``concatenated`` [R, C, M]. The database of the study
holds the same bytes of each task.
"""

import io
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lookalike.files import atomically, damaged, is_bomb, open_regular

if TYPE_CHECKING:
    from lookalike.evaluation.class_table import ClassTable

Cell = tuple[int, int]
"""Repeat and fold."""
WHOLE = ""
"""The name of the tables of a repeat in its record; those of baselines have their names."""


@dataclass(frozen=True)
class RowClasses:
    """Tables of the folds' separate models and of their concatenated embeddings, by repeat.

    ``concatenated`` is empty where there is one fold.
    """

    separate: Mapping[Cell, "ClassTable"] = field(default_factory=dict)
    concatenated: Mapping[int, "ClassTable"] = field(default_factory=dict)

    def of_repeat(self, repeat: int) -> "RowClasses":
        """The tables of one repeat, as repeat 0."""
        joined = self.concatenated.get(repeat)
        return RowClasses(
            {(0, fold): table for (at, fold), table in self.separate.items() if at == repeat},
            {} if joined is None else {0: joined},
        )

    @staticmethod
    def joined(parts: Mapping[int, "RowClasses"]) -> "RowClasses":
        """The tables of several repeats, each given as repeat 0."""
        return RowClasses(
            {
                (repeat, fold): table
                for repeat, part in parts.items()
                for (_, fold), table in part.separate.items()
            },
            {
                repeat: table
                for repeat, part in parts.items()
                for table in part.concatenated.values()
            },
        )

    def as_bytes(self) -> bytes:
        """The arrays as a compressed ``.npz``; scores in single precision."""
        tables = [*self.separate.values(), *self.concatenated.values()]
        first = tables[0]
        if any(table.classes != first.classes for table in tables):
            raise ValueError("the tables of a row must have the same classes")
        shape = (0, *first.values.shape)
        buffer = io.BytesIO()
        np.savez_compressed(
            buffer,
            classes=np.array(first.classes),
            queries=first.queries,
            metrics=np.array(first.metrics),
            cells=np.array(list(self.separate), np.int64).reshape(-1, 2),
            separate=_stacked(self.separate.values(), shape, first.metrics),
            repeats=np.array(list(self.concatenated), np.int64),
            concatenated=_stacked(self.concatenated.values(), shape, first.metrics),
        )
        return buffer.getvalue()

    @staticmethod
    def from_bytes(content: bytes) -> "RowClasses":
        """What :meth:`as_bytes` returned."""
        from lookalike.evaluation.class_table import ClassTable  # loads torch

        with np.load(io.BytesIO(content), allow_pickle=False) as found:
            if is_bomb(sum(one.file_size for one in found.zip.infolist()), len(content)):
                raise ValueError("what is in it is far larger than the file")
            arrays = {key: found[key] for key in found.files}
        _refuse_unlike(arrays)
        names = tuple(map(str, arrays["classes"]))
        metrics = tuple(map(str, arrays["metrics"]))

        def table(values: NDArray[Any]) -> ClassTable:
            return ClassTable(names, arrays["queries"], metrics, values.astype(np.float64))

        separate = zip(arrays["cells"].tolist(), arrays["separate"], strict=True)
        concatenated = zip(arrays["repeats"].tolist(), arrays["concatenated"], strict=True)
        return RowClasses(
            {(repeat, fold): table(values) for (repeat, fold), values in separate},
            {repeat: table(values) for repeat, values in concatenated},
        )


def _refuse_unlike(arrays: Mapping[str, NDArray[Any]]) -> None:
    """Refuse shapes and types that are not those of the module's documentation.

    Of texts without a byte, or rows without a column, a file of a kilobyte may have any number.
    """
    cells, repeats = len(arrays["cells"]), len(arrays["repeats"])
    ends = arrays["classes"].size, arrays["metrics"].size
    expected = {
        "classes": ("Uf", ends[:1]),  # of no names NumPy makes an array of numbers
        "queries": ("iu", ends[:1]),
        "metrics": ("Uf", ends[1:]),
        "cells": ("i", (cells, 2)),
        "separate": ("f", (cells, *ends)),
        "repeats": ("i", (repeats,)),
        "concatenated": ("f", (repeats, *ends)),
    }
    for key, (kinds, shape) in expected.items():
        found = arrays[key]
        if found.dtype.kind not in kinds or found.shape != shape or not found.itemsize:
            raise ValueError(f"{key} is {found.dtype} {found.shape}, not {shape}")


def _stacked(
    tables: Iterable["ClassTable"], empty: tuple[int, ...], metrics: tuple[str, ...]
) -> NDArray[np.float32]:
    found = [table.values[:, [table.metrics.index(m) for m in metrics]] for table in tables]
    return np.stack(found).astype(np.float32) if found else np.empty(empty, np.float32)


def classes_file(row_file: Path) -> Path:
    """The file of scores per class beside the file of a row."""
    return row_file.with_suffix(".classes.npz")


def write_classes(path: Path, classes: RowClasses) -> None:
    """Write the tables of a row; where there are none, remove what was there."""
    if not classes.separate:
        path.unlink(missing_ok=True)
        return
    with atomically(path) as draft:
        draft.write_bytes(classes.as_bytes())


def read_classes(path: Path) -> RowClasses | None:
    """The tables of a row; None where it has none, as results of older versions."""
    if not path.is_file():
        return None
    try:
        return RowClasses.from_bytes(open_regular(path).readall())
    except Exception as error:  # NumPy and zlib raise almost anything for a damaged file
        raise damaged(path) from error
