"""Fast search by cells (IVF: Sivic and Zisserman, ICCV 2003), with one quantiser for all segments.

The coarse quantiser is trained once and kept until the collection has grown four-fold. A vector is
assigned to its cell once; merging segments reuses the assignments. Cells hold the vectors in the
precision of the index, or from :data:`PLAIN_BELOW` on compressed ones (PQ: Jegou et al., TPAMI
2011). Where the cells are coarser than the stored vectors, candidates are compared again with
those.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from lookalike.errors import LookalikeError
from lookalike.inference.encoder import Vectors
from lookalike.search.folder.disk import FileNote, damaged, fsync, mapped
from lookalike.search.folder.manifest import CellsNote, Kind, QuantiserNote
from lookalike.search.folder.vectors import VectorFile
from lookalike.search.items import Precision

EXACT_BELOW = 50_000
PLAIN_BELOW = 5_000_000
GROWTH = 4
LEAST_RECALL = 0.95
SAMPLE = 256
EFFORTS = (8, 16, 32, 64, 128, 256, 512)
RERANKED: dict[Kind, int] = {"flat": 1, "fp16": 1, "sq8": 4, "pq": 10}
TYPES: dict[Kind, str] = {
    "flat": "IndexIVFFlat",
    "fp16": "IndexIVFScalarQuantizer",
    "sq8": "IndexIVFScalarQuantizer",
    "pq": "IndexIVFPQ",
}
"""The classes of FAISS; a file may hold any other."""
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

    def assign(self, vectors: Vectors) -> NDArray[np.uint32]:
        """The cell of each vector."""
        import faiss

        _, cells = faiss.downcast_index(self.empty.quantizer).search(
            np.ascontiguousarray(vectors, np.float32), 1
        )
        return np.asarray(cells[:, 0], np.uint32)

    def nearest(self, queries: Vectors, count: int) -> tuple[Vectors, Ints]:
        """Similarities and numbers of the ``count`` nearest cells of each query."""
        similar, cells = self.empty.quantizer.search(queries, count)
        return similar, cells


def kind_for(precision: Precision, count: int) -> Kind:
    """How cells hold vectors."""
    if count >= PLAIN_BELOW:
        return "pq"
    kinds: dict[Precision, Kind] = {"float32": "flat", "float16": "fp16", "int8": "sq8"}
    return kinds[precision]


def cells_for(count: int) -> int:
    """How many cells a collection gets."""
    return max(1, int(2 * count**0.5))


def train(path: Path, sample: Vectors, kind: Kind, count: int) -> QuantiserNote:
    """Train the quantiser of a collection of ``count`` pictures and write it."""
    import faiss

    width, cells = sample.shape[1], min(cells_for(count), len(sample))
    parts = next(m for m in range(-(-width // 2), 0, -1) if width % m == 0)
    names: dict[Kind, str] = {
        "flat": "Flat",
        "fp16": "SQfp16",
        "sq8": "SQ8",
        "pq": f"PQ{parts}x8np",
    }
    index: Any = faiss.index_factory(width, f"IVF{cells},{names[kind]}", faiss.METRIC_INNER_PRODUCT)
    index.cp.min_points_per_centroid = 1
    index.cp.niter = 12
    index.cp.spherical = True
    index.train(np.ascontiguousarray(sample, np.float32))
    faiss.write_index(index, str(path))
    fsync(path)
    return QuantiserNote(
        file=path.name, note=FileNote.of(path), kind=kind, cells=cells, trained_on=count
    )


def load(path: Path, note: QuantiserNote, dim: int) -> Quantiser:
    """The quantiser of ``dim`` numbers from its file; ``ValueError`` where it is not one."""
    import faiss

    try:
        index: Any = faiss.read_index(str(path))
        coarse = faiss.downcast_index(index.quantizer)
        types = (type(index).__name__, type(coarse).__name__)
        if types not in ((TYPES[note.kind], "IndexFlat"), (TYPES[note.kind], "IndexFlatIP")):
            raise ValueError(f"{path.name} is not of the kind '{note.kind}'")
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


def write(folder: Path, quantiser: Quantiser, vectors: VectorFile, cells: Any) -> None:
    """Write the cells of a segment and its FAISS index, whose ids are rows of the segment."""
    import faiss

    if len(cells) and int(cells.max()) >= quantiser.note.cells:
        raise damaged(folder.parent.parent, f"{CELLS} names cells that there are not")
    index: Any = faiss.clone_index(quantiser.empty)
    pointer: Any = faiss.swig_ptr
    for start in range(0, len(vectors), BLOCK):
        rows = np.ascontiguousarray(vectors[start : start + BLOCK])
        numbers = np.arange(start, start + len(rows))
        assigned = np.asarray(cells[start : start + len(rows)], np.int64)
        index.add_core(len(rows), *map(pointer, (rows, numbers, assigned)))
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

        self.note = note
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
        self._reranked = RERANKED[quantiser.note.kind]
        self._pointer: Any = faiss.swig_ptr
        self.set_effort(note.effort)

    def set_effort(self, effort: int) -> None:
        """How many cells a query visits."""
        self.effort = min(effort, self.quantiser.note.cells)
        self._index.nprobe = self.effort

    def search(self, queries: Vectors, k: int, vectors: VectorFile) -> tuple[Vectors, Ints]:
        """Similarities and rows [queries, k] of neighbours among all rows; -1 fills up."""
        candidates = k * self._reranked
        similar = np.empty((len(queries), candidates), np.float32)
        rows = np.empty((len(queries), candidates), np.int64)
        query_rows, *results = map(self._pointer, (queries, similar, rows))
        self._index.search_c(len(queries), query_rows, candidates, *results)
        return self._rerank(queries, k, vectors, similar, rows)

    def search_assigned(
        self,
        queries: Vectors,
        k: int,
        vectors: VectorFile,
        assigned: tuple[Vectors, Ints],
        allowed: Bits | None,
    ) -> tuple[Vectors, Ints]:
        """As :meth:`search`, in given cells (-1: none) and among the rows whose bits are set."""
        import faiss

        nearness, cells = (np.ascontiguousarray(part) for part in assigned)
        settings: Any = cast(Any, faiss).SearchParametersIVF(nprobe=cells.shape[1])
        if allowed is not None:
            # its length in bytes: a row beyond it, which a damaged file may name, has no bit
            selector = faiss.IDSelectorBitmap(len(allowed), self._pointer(allowed))
            settings.sel = selector
        candidates = k * self._reranked
        similar = np.empty((len(queries), candidates), np.float32)
        rows = np.empty((len(queries), candidates), np.int64)
        arrays = map(self._pointer, (cells, nearness, similar, rows))
        self._index.search_preassigned_c(
            len(queries), self._pointer(queries), candidates, *arrays, False, settings
        )
        return self._rerank(queries, k, vectors, similar, rows)

    def _rerank(
        self, queries: Vectors, k: int, vectors: VectorFile, similar: Vectors, rows: Ints
    ) -> tuple[Vectors, Ints]:
        """The best ``k`` candidates by the stored vectors, where the cells are coarser."""
        if rows.max(initial=-1) >= len(self.cells):
            raise LookalikeError(
                f"{FILE} of the index is damaged: it names pictures beyond its last"
            )
        if self._reranked == 1:
            return similar, rows
        for number, query in enumerate(queries):
            there = rows[number] >= 0
            close = vectors[rows[number][there]] @ query
            order = np.argsort(-close, kind="stable")
            similar[number, : len(order)] = close[order]
            rows[number, : len(order)] = rows[number][there][order]
        return similar[:, :k], rows[:, :k]
