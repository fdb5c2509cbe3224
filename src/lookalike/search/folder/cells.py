"""Fast search by cells (IVF: Sivic and Zisserman, ICCV 2003), with one quantiser for all segments.

The coarse quantiser is trained once and kept until the collection has grown four-fold. A vector is
assigned to its cell once; merging segments reuses the assignments. Cells hold the vectors in the
precision of the index.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lookalike.errors import LookalikeError
from lookalike.inference.encoder import Vectors
from lookalike.search.folder.disk import FileNote, damaged, fsync, mapped
from lookalike.search.folder.manifest import CellsNote, QuantiserNote
from lookalike.search.items import Precision

EXACT_BELOW = 50_000
GROWTH = 4
LEAST_RECALL = 0.95
SAMPLE = 256
NPROBES = (8, 16, 32, 64, 128, 256, 512)
KINDS: dict[Precision, tuple[str, str]] = {
    "float32": ("Flat", "IndexIVFFlat"),
    "float16": ("SQfp16", "IndexIVFScalarQuantizer"),
}
"""How FAISS's factory calls the cells of a precision, and the class that it makes."""
BLOCK = 65_536
FILE = "ann.faiss"
CELLS = "cells.npy"

Bits = NDArray[np.uint8]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Quantiser:
    """An empty FAISS index with trained cells, and the centroids of these."""

    note: QuantiserNote
    empty: Any
    centroids: Vectors

    def assign(self, vectors: Any) -> NDArray[np.uint32]:
        """The cell of each vector."""
        _, cells = self.empty.quantizer.search(np.ascontiguousarray(vectors, np.float32), 1)
        return np.asarray(cells[:, 0], np.uint32)


def cells_for(count: int) -> int:
    """How many cells a collection gets."""
    return max(1, int(2 * count**0.5))


def train(path: Path, sample: Vectors, precision: Precision, count: int) -> QuantiserNote:
    """Train the quantiser of a collection of ``count`` pictures and write it."""
    import faiss

    cells = min(cells_for(count), len(sample))
    index: Any = faiss.index_factory(
        sample.shape[1], f"IVF{cells},{KINDS[precision][0]}", faiss.METRIC_INNER_PRODUCT
    )
    index.cp.min_points_per_centroid = 1
    index.cp.niter = 12
    index.cp.spherical = True
    index.train(np.ascontiguousarray(sample, np.float32))
    faiss.write_index(index, str(path))
    fsync(path)
    return QuantiserNote(file=path.name, note=FileNote.of(path), cells=cells, trained_on=count)


def load(path: Path, note: QuantiserNote, dim: int, precision: Precision) -> Quantiser:
    """The quantiser of ``dim`` numbers from its file; ``ValueError`` where it is not one."""
    import faiss

    try:
        index: Any = faiss.read_index(str(path))
        coarse = faiss.downcast_index(index.quantizer)
        types = (type(index).__name__, type(coarse).__name__)
        if types not in ((KINDS[precision][1], "IndexFlat"), (KINDS[precision][1], "IndexFlatIP")):
            raise ValueError(f"{path.name} does not have cells of {precision}")
        # Into our own array: once any package has imported faiss.contrib.torch_utils, FAISS would
        # return a tensor.
        centroids = np.empty((coarse.ntotal, coarse.d), np.float32)
        coarse.reconstruct_n(0, coarse.ntotal, centroids)
    except (RuntimeError, AttributeError, MemoryError) as error:
        if not path.exists():
            raise FileNotFoundError(2, "no such file", str(path)) from error
        raise ValueError(f"{path.name} cannot be read") from error
    if len(centroids) != note.cells or index.nlist != note.cells:
        raise ValueError(f"{path.name} does not have {note.cells} cells")
    if {index.d, coarse.d} != {dim} or index.metric_type != faiss.METRIC_INNER_PRODUCT:
        raise ValueError(f"{path.name} is not of vectors of {dim} numbers")
    return Quantiser(note, index, centroids)


def write(folder: Path, quantiser: Quantiser, vectors: Any, cells: Any) -> None:
    """Write the cells of a segment and its FAISS index, whose ids are rows of the segment."""
    import faiss
    from faiss.contrib import ivf_tools

    if len(cells) and int(cells.max()) >= quantiser.note.cells:
        raise damaged(folder.parent.parent, f"{CELLS} names cells that there are not")
    index: Any = faiss.clone_index(quantiser.empty)
    tools: Any = ivf_tools
    for start in range(0, len(vectors), BLOCK):
        rows = np.ascontiguousarray(vectors[start : start + BLOCK], np.float32)
        assigned = np.asarray(cells[start : start + len(rows)], np.int64)
        numbers = np.arange(start, start + len(rows))  # held here: the function keeps no array
        tools.add_preassigned(index, rows, assigned, numbers)
    faiss.write_index(index, str(folder / FILE))
    np.save(folder / CELLS, np.asarray(cells, np.uint32))


def _fits(index: Any, lists: Any, quantiser: Quantiser, count: int, size: int) -> bool:
    """Whether an index is of this segment, and the cells that it names are inside its file.

    FAISS maps the file and looks at neither: a cell beyond the end would be a bus error.
    """
    empty = quantiser.empty
    if type(index) is not type(empty) or (index.ntotal, index.nlist) != (count, empty.nlist):
        return False
    if index.d != empty.d or {index.code_size, lists.code_size} != {empty.code_size}:
        return False
    cells = [lists.lists.at(number) for number in range(empty.nlist)]
    width = lists.code_size + 8  # an id has eight bytes
    inside = all(
        cell.size <= cell.capacity and cell.offset + cell.capacity * width <= size for cell in cells
    )
    return inside and sum(cell.size for cell in cells) == count


class Cells:
    """The fast search of a segment; what a query visits is read from the file."""

    def __init__(self, folder: Path, count: int, quantiser: Quantiser, note: CellsNote) -> None:
        import faiss

        self.quantiser = quantiser
        self.cells: NDArray[np.uint32] = mapped(folder / CELLS, (count,), np.uint32)
        path = folder / FILE
        try:
            index: Any = faiss.read_index(str(path), faiss.IO_FLAG_MMAP | faiss.IO_FLAG_READ_ONLY)
        except (RuntimeError, MemoryError) as error:
            if not path.exists():
                raise FileNotFoundError(2, "no such file", str(path)) from error
            raise ValueError(f"{path.name} cannot be read") from error
        # Threads that read ahead cost more than the whole search of a mapped file.
        lists: Any = faiss.downcast_InvertedLists(index.invlists)
        if not _fits(index, lists, quantiser, count, path.stat().st_size):
            raise ValueError(f"{path.name} is of another segment")
        lists.prefetch_nthread = 0
        self._index = index
        self.set_nprobe(note.nprobe)

    def set_nprobe(self, nprobe: int) -> None:
        """How many cells a query visits."""
        self.nprobe = min(nprobe, self.quantiser.note.cells)
        self._index.nprobe = self.nprobe

    def search(self, queries: Vectors, k: int) -> tuple[Vectors, Ints]:
        """Similarities and rows [queries, k] of neighbours among all rows; -1 fills up."""
        return self._checked(*self._index.search(queries, k))

    def nearest_cells(self, queries: Vectors) -> tuple[Vectors, Ints]:
        """Similarities and numbers of the cells that each query visits."""
        similar, cells = self.quantiser.empty.quantizer.search(queries, self.nprobe)
        return similar, cells

    def search_cells(
        self, queries: Vectors, k: int, near: Vectors, cells: Ints, allowed: Bits
    ) -> tuple[Vectors, Ints]:
        """As :meth:`search`, in given cells and among the rows whose bits are set.

        FAISS's Python function for it takes no selector, so this calls the one of C++.

        Args:
            queries: Unit vectors.
            k: How many to find.
            near: Their similarities to the cells.
            cells: The numbers of the cells of each query; -1: none.
            allowed: A bit for each row.
        """
        import faiss

        similar = np.empty((len(queries), k), np.float32)
        rows = np.empty((len(queries), k), np.int64)
        near, cells = np.ascontiguousarray(near), np.ascontiguousarray(cells)
        pointer: Any = faiss.swig_ptr
        given = (pointer(queries), k, *map(pointer, (cells, near, similar, rows)))
        library: Any = faiss  # its stubs are those of C++
        # its length is in bytes: a row beyond it, which a damaged file may name, has no bit
        selector = library.IDSelectorBitmap(allowed)
        settings = library.SearchParametersIVF(nprobe=cells.shape[1], sel=selector)
        self._index.search_preassigned_c(len(queries), *given, False, settings)
        return self._checked(similar, rows)

    def _checked(self, similar: Vectors, rows: Ints) -> tuple[Vectors, Ints]:
        if rows.max(initial=-1) >= len(self.cells):
            raise LookalikeError(
                f"{FILE} of the index is damaged: it names pictures beyond its last"
            )
        return similar, rows
