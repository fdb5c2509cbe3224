"""Searching many vectors without looking at all of them, by FAISS, and how well that agrees.

Up to :data:`EXACT_BELOW` vectors exact search is as quick. Above that a graph (HNSW: Malkov and
Yashunin, TPAMI 2020) answers fastest but is slow to build and must lie in memory; then cells (IVF:
Sivic and Zisserman, ICCV 2003), which are read from the file as needed; then cells with compressed
vectors (PQ: Jegou et al., TPAMI 2011), whose candidates are compared again with the true vectors.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

from lookalike.inference.encoder import Vectors
from lookalike.search.exact import Rows, exact_search

__all__ = [
    "Approximation",
    "FastSearch",
    "Kind",
    "build",
    "kind_for",
    "mean_recall",
    "out_of_date",
    "tuned",
]

Kind: TypeAlias = Literal["hnsw", "ivf", "pq"]
Ids: TypeAlias = NDArray[np.int64]

EXACT_BELOW = 50_000
GRAPH_BELOW = 200_000
PLAIN_BELOW = 5_000_000

TARGET = 0.97
NEIGHBOURS = 10
SAMPLE = 256
EFFORTS = (16, 32, 64, 128, 256, 512)
FEWEST_CELLS = (4, 8)
RERANKED = 10
ROWS_AT_A_TIME = 65_536


class Approximation(BaseModel):
    """What an index notes of its fast search.

    It knows the pictures with ids below ``below``, ``count`` of them when it was built. ``effort``
    is what one query costs: cells visited, or paths followed through the graph. ``recall`` is the
    share of the true ten nearest that it finds.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    file: str
    size: int
    kind: Kind
    effort: int
    below: int
    count: int
    recall: float
    sample: int

    def __str__(self) -> str:
        how = {
            "hnsw": f"HNSW graph, {self.effort} paths a query",
            "ivf": f"IVF, {self.effort} cells a query",
            "pq": f"IVF with PQ, {self.effort} cells a query, re-ranked",
        }[self.kind]
        return (
            f"{how}; recall@{NEIGHBOURS} {self.recall:.3f} against exact search, "
            f"on {self.sample} pictures"
        )


def kind_for(count: int) -> Kind | None:
    """How to search ``count`` vectors; None: exactly."""
    if count < EXACT_BELOW:
        return None
    if count < GRAPH_BELOW:
        return "hnsw"
    return "ivf" if count < PLAIN_BELOW else "pq"


def build(
    path: Path,
    kind: Kind,
    vectors: Vectors,
    ids: Ids,
    progress: Callable[[int, int], None] | None = None,
) -> None:
    """Write a FAISS index of unit vectors under their ids."""
    import faiss

    index: Any
    inner = faiss.METRIC_INNER_PRODUCT
    width = vectors.shape[1]
    if kind == "hnsw":
        graph = faiss.IndexHNSWFlat(width, 32, inner)
        graph.hnsw.efConstruction = 80
        index = faiss.IndexIDMap(graph)
    else:
        cells = max(1, int(2 * len(vectors) ** 0.5))
        coarse = faiss.IndexFlat(width, inner)
        if kind == "ivf":
            index = faiss.IndexIVFFlat(coarse, width, cells, inner)
        else:
            parts = next(m for m in range(-(-width // 2), 0, -1) if width % m == 0)
            index = faiss.IndexIVFPQ(coarse, width, cells, parts, 8, inner)
        index.cp.min_points_per_centroid = 1
        index.cp.spherical = True
        shown = np.random.default_rng(0).choice(
            len(vectors), min(len(vectors), 64 * cells), replace=False
        )
        index.train(np.asarray(vectors[np.sort(shown)]))
    for start in range(0, len(vectors), ROWS_AT_A_TIME):
        part = np.asarray(vectors[start : start + ROWS_AT_A_TIME])
        index.add_with_ids(part, np.asarray(ids[start : start + len(part)]))
        if progress:
            progress(start + len(part), len(vectors))
    faiss.write_index(index, str(path))


class FastSearch:
    """A FAISS index in a file; cells are read from it as they are visited."""

    def __init__(self, path: Path, kind: Kind) -> None:
        import faiss

        self.kind = kind
        flags = 0 if kind == "hnsw" else faiss.IO_FLAG_MMAP | faiss.IO_FLAG_READ_ONLY
        try:
            self._index: Any = faiss.read_index(str(path), flags)
        except RuntimeError as error:
            raise ValueError(f"'{path.name}' cannot be read") from error
        self._options: Any = (
            faiss.SearchParametersHNSW  # type: ignore[attr-defined]  # its stubs lack it
            if kind == "hnsw"
            else faiss.SearchParametersIVF
        )

    def candidates(self, queries: Vectors, k: int, effort: int) -> Ids:
        """Ids [queries, k or more] that are likely among the nearest; -1 fills up."""
        import faiss

        wanted = k * RERANKED if self.kind == "pq" else k
        if self.kind == "hnsw":
            options = self._options(efSearch=max(effort, wanted))
        else:
            options = self._options(nprobe=effort)
        # The plain call: faiss.contrib.torch_utils, which other libraries load, replaces ``search``
        # by one that takes no options.
        rows = np.ascontiguousarray(queries, np.float32)
        similarities = np.empty((len(rows), wanted), np.float32)
        found = np.empty((len(rows), wanted), np.int64)
        pointers = [faiss.swig_ptr(array) for array in (rows, similarities, found)]
        self._index.search_c(len(rows), pointers[0], wanted, *pointers[1:], options)
        return found

    def nearest(
        self, noted: Approximation, queries: Vectors, k: int, ids: Ids, vectors: Vectors
    ) -> tuple[Rows, Vectors]:
        """Rows and similarities of ``k`` neighbours among the pictures that there are now.

        Candidates and all pictures that came later are compared exactly; those that were removed
        are passed over. Where too few are left, all pictures are looked at.
        """
        known = int(np.searchsorted(ids, noted.below))
        lost = noted.count - known
        spare = k + 4 * -(-k * lost // noted.count) if lost else 0
        candidates = self.candidates(queries, min(k + spare, noted.count), noted.effort)
        later = np.arange(known, len(ids))
        rows = np.empty((len(queries), k), np.int64)
        similarities = np.empty((len(queries), k), np.float32)
        for number, (query, found) in enumerate(zip(queries, candidates, strict=True)):
            there = rows_of(ids[:known], found)
            if len(there) < min(k, known):
                whole = exact_search(query[None], vectors, k)
                rows[number], similarities[number] = whole[0][0], whole[1][0]
                continue
            near = np.concatenate([there, later])
            similar = np.concatenate([vectors[there] @ query, vectors[known:] @ query])
            best = np.argsort(-similar, kind="stable")[:k]
            rows[number], similarities[number] = near[best], similar[best]
        return rows, similarities


def rows_of(ids: Ids, wanted: Ids) -> Rows:
    """The rows of those of ``wanted`` that are among the ascending ``ids``."""
    if not len(ids):
        return np.empty(0, np.int64)
    rows = np.minimum(np.searchsorted(ids, wanted), len(ids) - 1)
    there: Rows = rows[ids[rows] == wanted]
    return there


def out_of_date(noted: Approximation, ids: Ids) -> bool:
    """Whether so many pictures came or went that the fast search should be built again."""
    known = int(np.searchsorted(ids, noted.below))
    new, lost = len(ids) - known, noted.count - known
    return new >= EXACT_BELOW or new + lost > noted.count // 5


def tuned(search: FastSearch, vectors: Vectors, ids: Ids) -> tuple[int, float, int]:
    """The least effort that finds enough of the true neighbours: (effort, recall, sample).

    Pictures of the index ask, drawn by chance, and their nearest others must be found. Where no
    effort is enough the recall of the greatest is given.
    """
    drawn = np.random.default_rng(1).choice(len(vectors), min(SAMPLE, len(vectors)), replace=False)
    asking = np.sort(drawn)
    queries = np.ascontiguousarray(vectors[asking])
    truth = ids[exact_search(queries, vectors, NEIGHBOURS + 1)[0]]
    recall = 0.0
    for effort in EFFORTS if search.kind == "hnsw" else FEWEST_CELLS + EFFORTS:
        found = search.candidates(queries, NEIGHBOURS + 1, effort)
        recall = mean_recall(ids[asking].tolist(), truth.tolist(), found.tolist())
        if recall >= TARGET:
            break
    return effort, recall, len(asking)


def mean_recall(
    own: Sequence[int], truth: Sequence[Sequence[int]], found: Sequence[Sequence[int]]
) -> float:
    """The mean share of the true neighbours that was found; no picture counts as its own.

    >>> mean_recall([1], [[1, 2, 3]], [[1, 3, 4]])
    0.5
    """
    shares = []
    for asking, right, got in zip(own, truth, found, strict=True):
        others = set(right) - {asking}
        shares.append(len(others & set(got)) / len(others))
    return sum(shares) / len(shares)
