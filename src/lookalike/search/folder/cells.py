"""Fast search by cells (IVF: Sivic and Zisserman, ICCV 2003).

The centroids are trained once and used for all segments until the collection has grown four-fold,
so that merging segments reuses which cell a vector is in. A cell's vectors lie together in a file
of ours, which FAISS maps and scans; it reads no file of its own format.

A filter is applied inside the search. The cells that hold none of the chosen rows are not visited,
and the nearest of the others are, until about as many chosen rows have been compared as rows
without a filter. So its recall is that of the search without one, wherever the chosen rows lie.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lookalike.errors import LookalikeError
from lookalike.inference.encoder import Vectors
from lookalike.search.folder.manifest import CellsNote
from lookalike.search.folder.rows import mapped
from lookalike.search.items import Precision
from lookalike.search.vectors import NEIGHBOURS, Ints, least_setting, nearest

NPROBES = (8, 16, 32, 64, 128, 256, 512)
SAMPLE = 256
PER_CELL = 64
"""Vectors that train a centroid."""
WIDER = 2
"""With a filter that leaves little, so many times the rows of a search without one are compared."""
BLOCK = 65_536

Bits = NDArray[np.uint8]


def files_of(commit: int) -> tuple[str, str, str]:
    """The cell of each row, the centroids, and the vectors and rows of each cell."""
    return f"cells-{commit:06d}.npy", f"centroids-{commit:06d}.npy", f"lists-{commit:06d}.bin"


class Cells:
    """The fast search of a segment; what a query visits is read from the file.

    Args:
        home: The folder of the segment.
        note: What was measured.
        shape: Of the segment's vectors.
        precision: The type of their numbers.

    Raises:
        ValueError: A file is not one of this segment.
    """

    def __init__(
        self, home: Path, note: CellsNote, shape: tuple[int, int], precision: Precision
    ) -> None:
        import faiss

        library: Any = faiss  # its stubs are those of C++
        (self.count, dim), self.note = shape, note
        assigned, centroids, lists = (home / name for name in files_of(note.commit))
        self.assigned: NDArray[np.uint32] = mapped(assigned, (self.count,), np.uint32)
        self.centroids: Vectors = mapped(centroids, (note.cells, dim), np.float32)
        if self.assigned.max() >= note.cells:
            raise ValueError(f"{assigned.name} names cells that there are not")
        self.sizes = np.bincount(self.assigned, minlength=note.cells)
        self._coarse = library.IndexFlatIP(dim)
        self._coarse.add(np.ascontiguousarray(self.centroids))
        if precision == "float32":
            index = library.IndexIVFFlat(self._coarse, dim, note.cells, faiss.METRIC_INNER_PRODUCT)
        else:
            kind = library.ScalarQuantizer.QT_fp16
            given = (self._coarse, dim, note.cells, kind, faiss.METRIC_INNER_PRODUCT, False)
            index = library.IndexIVFScalarQuantizer(*given)
        index.is_trained, index.ntotal = True, self.count
        width = index.code_size + 8  # a row's number has eight bytes
        if lists.stat().st_size != self.count * width:
            raise ValueError(f"{lists.name} is of another segment")
        self._lists = library.OnDiskInvertedLists()
        self._lists.nlist, self._lists.code_size = note.cells, index.code_size
        self._lists.lists.resize(note.cells)
        sizes = self.sizes.astype(np.uint64)  # held here: only its address is passed
        self._lists.set_all_lists_sizes(faiss.swig_ptr(sizes))
        self._lists.filename, self._lists.totsize = str(lists), self.count * width
        self._lists.read_only = True
        self._lists.do_mmap()
        # Threads that read ahead cost more than the whole search of a mapped file.
        self._lists.prefetch_nthread = 0
        index.replace_invlists(self._lists)
        self._index, self._pointer = index, faiss.swig_ptr
        self.set_nprobe(note.nprobe)

    def set_nprobe(self, nprobe: int) -> None:
        """How many cells a query visits."""
        self._index.nprobe = min(nprobe, len(self.centroids))

    def narrowed(self, mask: NDArray[np.bool_], filtered: bool) -> "Narrowed":
        """How to search the rows of a mask.

        Args:
            mask: A boolean for each row.
            filtered: A filter left rows out; those that were removed are few.
        """
        nprobe, cells = int(self._index.nprobe), len(self.sizes)
        if not filtered:
            return Narrowed(packed(mask), None, self.sizes, self.centroids, nprobe)
        held = np.bincount(self.assigned[mask], minlength=cells)
        left = np.count_nonzero(mask) / self.count
        wanted = (1 + (WIDER - 1) * (1 - left)) * nprobe * self.count / cells
        some = held > 0
        return Narrowed(packed(mask), packed(some), held[some], self.centroids[some], int(wanted))

    def search(
        self, queries: Vectors, k: int, narrowed: "Narrowed | None" = None
    ) -> tuple[Vectors, Ints]:
        """Similarities and rows [queries, k] of neighbours; -1 fills up.

        Args:
            queries: Unit vectors.
            k: How many to find.
            narrowed: Which rows are searched; None: all.
        """
        similar = np.empty((len(queries), k), np.float32)
        rows = np.empty((len(queries), k), np.int64)
        # C++'s own function: FAISS's for Python takes no parameters once any package has imported
        # faiss.contrib.torch_utils.
        given = (len(queries), self._pointer(queries), k)
        found = (self._pointer(similar), self._pointer(rows))
        parameters = None if narrowed is None else narrowed.parameters(queries)
        self._index.search_c(*given, *found, parameters)
        if rows.max(initial=-1) >= self.count:
            raise LookalikeError("the index is damaged: its cells name pictures beyond the last")
        return similar, rows


@dataclass(frozen=True)
class Narrowed:
    """Some rows of a segment, and the cells that hold any.

    Attributes:
        rows: A bit for each row.
        cells: A bit for each cell; None: all are visited as without a filter.
        held: How many of the rows each of these cells has.
        centroids: The centroids of these cells.
        wanted: How many of the rows a query is compared with; where ``cells`` is None, how many
            cells it visits.
    """

    rows: Bits
    cells: Bits | None
    held: Ints
    centroids: Vectors
    wanted: int

    def parameters(self, queries: Vectors) -> Any:
        """The settings of FAISS: as many cells as hold enough rows for each of the queries."""
        import faiss

        library: Any = faiss
        allowed = library.IDSelectorBitmap(self.rows)
        if self.cells is None:
            return library.SearchParametersIVF(sel=allowed, nprobe=self.wanted)
        order = np.argsort(-(queries @ self.centroids.T), axis=1)
        before = np.cumsum(self.held[order], axis=1) - self.held[order]
        return library.SearchParametersIVF(
            sel=allowed,
            nprobe=int((before < self.wanted).sum(axis=1).max()),
            quantizer_params=library.SearchParameters(sel=library.IDSelectorBitmap(self.cells)),
        )


def packed(mask: NDArray[np.bool_]) -> Bits:
    """Bits as FAISS reads them."""
    return np.packbits(mask, bitorder="little")


def train(vectors: NDArray[Any]) -> Vectors:
    """The centroids for a segment with these vectors."""
    import faiss

    cells = min(max(1, int(2 * len(vectors) ** 0.5)), len(vectors))
    random = np.random.default_rng(0)
    rows = np.sort(random.choice(len(vectors), min(PER_CELL * cells, len(vectors)), replace=False))
    kmeans: Any = faiss.Kmeans(
        vectors.shape[1], cells, niter=12, spherical=True, min_points_per_centroid=1
    )
    kmeans.train(np.ascontiguousarray(vectors[rows], np.float32))
    centroids: Vectors = kmeans.centroids
    return centroids


def assign(vectors: NDArray[Any], centroids: Vectors) -> NDArray[np.uint32]:
    """The cell of each vector."""
    found = np.empty(len(vectors), np.uint32)
    for start in range(0, len(vectors), BLOCK):
        block = np.ascontiguousarray(vectors[start : start + BLOCK], np.float32)
        found[start : start + len(block)] = nearest(block, centroids, 1)[1][:, 0]
    return found


def build(
    home: Path,
    vectors: NDArray[Any],
    assigned: NDArray[np.uint32],
    centroids: Vectors,
    note: CellsNote,
) -> CellsNote:
    """Write the fast search of a segment, and measure it.

    Args:
        home: The folder of the segment.
        vectors: Its vectors.
        assigned: The cell of each.
        centroids: The centroids.
        note: The note without what is measured.

    Returns:
        The note; where its recall is too little, there are no files.
    """
    names = files_of(note.commit)
    np.save(home / names[0], assigned)
    np.save(home / names[1], np.ascontiguousarray(centroids))
    order = np.argsort(assigned, kind="stable").astype(np.int64)
    with (home / names[2]).open("wb") as file:
        for rows in np.split(order, np.cumsum(np.bincount(assigned, minlength=note.cells))[:-1]):
            file.write(np.ascontiguousarray(vectors[rows]).tobytes())
            file.write(rows.astype("<i8").tobytes())
    precision: Precision = "float32" if vectors.dtype == np.float32 else "float16"
    shape: Any = vectors.shape
    found = measured(Cells(home, note, shape, precision), vectors)
    if not found.usable:
        for name in names:
            (home / name).unlink()
    return found


def measured(cells: Cells, vectors: NDArray[Any]) -> CellsNote:
    """The least ``nprobe`` that finds enough of the true neighbours of some pictures."""
    random = np.random.default_rng(1)
    rows = np.sort(random.choice(len(vectors), min(SAMPLE, len(vectors)), replace=False))
    queries = np.ascontiguousarray(vectors[rows], np.float32)
    truth = nearest(queries, vectors, NEIGHBOURS + 1)[1].tolist()

    def found(nprobe: int) -> list[list[int]]:
        cells.set_nprobe(nprobe)
        return list(cells.search(queries, NEIGHBOURS + 1)[1].tolist())

    nprobe, recall = least_setting(NPROBES, rows.tolist(), truth, found)
    return cells.note.model_copy(
        update={
            "nprobe": min(nprobe, cells.note.cells),
            "recall": recall,
            "sample": len(rows),
        }
    )
