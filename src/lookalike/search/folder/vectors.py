"""The vectors of a segment, in the precision of the index.

float32 and float16 are stored as they are; int8 with one scale per row: row i is
``scales[i] * values[i]``, the largest value of a row being 127.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from lookalike.evaluation.neighbours import exact_search
from lookalike.inference.encoder import Vectors
from lookalike.search.effort import NEIGHBOURS, mean_recall
from lookalike.search.folder.disk import mapped
from lookalike.search.folder.manifest import PrecisionNote
from lookalike.search.items import Precision

VALUES = "vectors.npy"
SCALES = "scales.npy"
LARGEST = 127
QUERIES, GALLERY, FEWEST = 256, 10_000, 50


@dataclass(frozen=True)
class VectorFile:
    """Rows that are decoded as they are asked for; ``scales`` is None unless they are int8."""

    values: NDArray[Any]
    scales: NDArray[np.float32] | None = None

    @classmethod
    def open(cls, folder: Path, count: int, dim: int, precision: Precision) -> Self:
        """Map the files of a segment."""
        values = mapped(folder / VALUES, (count, dim), np.dtype(precision))
        scaled = precision == "int8"
        return cls(values, mapped(folder / SCALES, (count,), np.float32) if scaled else None)

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, rows: Any) -> Vectors:
        """Some rows in float32, [n, dim]; float32 rows of a slice are not copied."""
        found: Vectors = self.values[rows]
        if found.dtype != np.float32:
            found = found.astype(np.float32)
        if self.scales is not None:
            found = found * self.scales[rows][..., None]
        return found


def encode(vectors: Vectors, precision: Precision) -> VectorFile:
    """Vectors in a precision."""
    if precision != "int8":
        return VectorFile(np.ascontiguousarray(vectors, dtype=precision))
    largest = np.abs(vectors).max(axis=1, initial=0)
    scales = (np.where(largest > 0, largest, LARGEST) / LARGEST).astype(np.float32)
    return VectorFile(np.rint(vectors / scales[:, None]).astype(np.int8), scales)


def write(folder: Path, vectors: VectorFile) -> None:
    """Write the files of a segment."""
    np.save(folder / VALUES, vectors.values)
    if vectors.scales is not None:
        np.save(folder / SCALES, vectors.scales)


def allocated(path: Path, dtype: np.dtype[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    """An array in a new file whose space is reserved: a full disk is an error here, not later."""
    array: NDArray[Any] = np.lib.format.open_memmap(path, "w+", dtype, shape)
    if hasattr(os, "posix_fallocate"):  # macOS has none
        with path.open("r+b") as file:
            os.posix_fallocate(file.fileno(), 0, path.stat().st_size)
    return array


class Writer:
    """The files of a segment of known size, written a block at a time."""

    def __init__(self, folder: Path, count: int, dim: int, precision: Precision) -> None:
        self.values = allocated(folder / VALUES, np.dtype(precision), (count, dim))
        self.scales: NDArray[np.float32] | None = None
        if precision == "int8":
            self.scales = allocated(folder / SCALES, np.dtype(np.float32), (count,))

    def put(self, places: Any, source: VectorFile, rows: Any) -> None:
        """Copy rows of a source, as they are stored."""
        self.values[places] = source.values[rows]
        if self.scales is not None and source.scales is not None:
            self.scales[places] = source.scales[rows]

    def flush(self) -> None:
        """Write what is still in memory."""
        for part in (self.values, self.scales):
            if isinstance(part, np.memmap):
                part.flush()


def measure(
    vectors: Vectors, stored: VectorFile, former: PrecisionNote | None
) -> PrecisionNote | None:
    """What the precision costs these vectors; the note on the larger sample is kept."""
    size = min(len(vectors), GALLERY)
    if stored.values.dtype == np.float32 or size < FEWEST or (former and former.sample >= size):
        return former
    import torch

    random = np.random.default_rng(0)
    rows = np.sort(random.choice(len(vectors), size, replace=False))
    own = random.choice(size, min(QUERIES, size), replace=False)
    k = min(NEIGHBOURS + 1, size)
    gallery, coarse = np.ascontiguousarray(vectors[rows], np.float32), stored[rows]
    queries = torch.from_numpy(gallery[own])
    truth = exact_search(queries, torch.from_numpy(gallery), k)[1].tolist()
    found = exact_search(queries, torch.from_numpy(coarse), k)[1].tolist()
    return PrecisionNote(recall=mean_recall(own.tolist(), truth, found), sample=size)
