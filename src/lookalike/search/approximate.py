"""Fast search of many vectors by FAISS, and its recall against exact search.

Up to :data:`EXACT_BELOW` vectors exact search is as quick. Above that a graph (HNSW: Malkov and
Yashunin, TPAMI 2020) answers fastest but is slow to build and must lie in memory; then cells (IVF:
Sivic and Zisserman, ICCV 2003), which are read from the file as needed; then cells with compressed
vectors (PQ: Jegou et al., TPAMI 2011), whose candidates are compared again with the true vectors.
"""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

from lookalike.evaluation.neighbours import empty_index, exact_search
from lookalike.inference.encoder import Vectors
from lookalike.progress import Watcher

Kind: TypeAlias = Literal["hnsw", "ivf", "pq"]
Ints: TypeAlias = NDArray[np.int64]

EXACT_BELOW = 50_000
GRAPH_BELOW = 200_000
PLAIN_BELOW = 5_000_000

TARGET = 0.97
NEIGHBOURS = 10
SAMPLE = 256
EFFORTS = (16, 32, 64, 128, 256, 512)
FEWEST_CELLS = (4, 8)
RERANKED = 10
BLOCK = 65_536


class Approximation(BaseModel):
    """What the manifest of an index says about its fast search.

    It covers the pictures with ids below ``below``, ``count`` of them when it was built. ``effort``
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
        found = f"recall@{NEIGHBOURS} {self.recall:.3f} against exact search"
        return f"{how}; {found}, on {self.sample} pictures"


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
    ids: Ints,
    next_id: int,
    watcher: Watcher,
) -> Approximation:
    """Write a FAISS index of unit vectors under their ids, and choose its effort.

    ``next_id`` is the least id that a later vector can get.
    """
    import faiss

    cells = max(1, int(2 * len(vectors) ** 0.5))
    random = np.random.default_rng(0)
    shown = random.choice(len(vectors), min(len(vectors), 64 * cells), replace=False)
    index = empty_index(np.asarray(vectors[np.sort(shown)]), kind, cells)
    if kind == "hnsw":
        index = faiss.IndexIDMap(index)
    for start in range(0, len(vectors), BLOCK):
        part = np.asarray(vectors[start : start + BLOCK])
        index.add_with_ids(part, np.asarray(ids[start : start + len(part)]))
        watcher.stage("building", start + len(part), len(vectors))
    faiss.write_index(index, str(path))

    rows = np.random.default_rng(1).choice(len(ids), min(SAMPLE, len(ids)), replace=False)
    rows.sort()
    queries = np.ascontiguousarray(vectors[rows])
    nearest = exact_search(torch.from_numpy(queries), torch.from_numpy(vectors), NEIGHBOURS + 1)
    built = Approximation(
        file=path.name,
        size=path.stat().st_size,
        kind=kind,
        effort=1,
        below=next_id,
        count=len(ids),
        recall=0,
        sample=len(rows),
    )
    search = FastSearch(path, built)

    def found(effort: int) -> list[list[int]]:
        search.set_effort(effort)
        return list(search.candidates(queries, NEIGHBOURS + 1).tolist())

    efforts = EFFORTS if kind == "hnsw" else FEWEST_CELLS + EFFORTS
    own, truth = ids[rows].tolist(), ids[nearest[1].numpy()].tolist()
    effort, recall = least_effort(efforts, own, truth, found)
    return built.model_copy(update={"effort": effort, "recall": recall})


class FastSearch:
    """A FAISS index in a file; cells are read from it as they are visited."""

    def __init__(self, path: Path, noted: Approximation) -> None:
        import faiss

        self.noted = noted
        flags = 0 if noted.kind == "hnsw" else faiss.IO_FLAG_MMAP | faiss.IO_FLAG_READ_ONLY
        try:
            self._index: Any = faiss.read_index(str(path), flags)
        except RuntimeError as error:
            raise ValueError(f"'{path.name}' cannot be read") from error
        self.set_effort(noted.effort)

    def set_effort(self, effort: int) -> None:
        """How many cells a query visits, or paths it follows (at least as many as it finds)."""
        import faiss

        name = "efSearch" if self.noted.kind == "hnsw" else "nprobe"
        faiss.ParameterSpace().set_index_parameter(self._index, name, effort)

    def candidates(self, queries: Vectors, k: int) -> Ints:
        """Ids [queries, k or more] that are likely among the nearest; -1 fills up."""
        wanted = k * RERANKED if self.noted.kind == "pq" else k
        found: Ints = self._index.search(np.ascontiguousarray(queries, np.float32), wanted)[1]
        return found

    def nearest(
        self, queries: Vectors, k: int, ids: Ints, vectors: Vectors
    ) -> tuple[Ints, Vectors]:
        """Rows and similarities of ``k`` neighbours among the present pictures.

        Candidates and all pictures that came later are compared exactly; those that were removed
        are left out. Where too few remain, all pictures are compared.
        """
        known = int(np.searchsorted(ids, self.noted.below))
        count = self.noted.count
        lost = count - known
        spare = k + 4 * -(-k * lost // count) if lost else 0
        candidates = self.candidates(queries, min(k + spare, count))
        later = np.arange(known, len(ids))
        rows = np.empty((len(queries), k), np.int64)
        similarities = np.empty((len(queries), k), np.float32)
        for number, (query, found) in enumerate(zip(queries, candidates, strict=True)):
            at = np.searchsorted(ids[:known], found)
            inside = at < known
            there = at[inside][ids[at[inside]] == found[inside]]
            if len(there) < min(k, known):
                every = exact_search(torch.from_numpy(query[None]), torch.from_numpy(vectors), k)
                similarities[number], rows[number] = (each[0].numpy() for each in every)
                continue
            near = np.concatenate([there, later])
            similar = np.concatenate([vectors[there] @ query, vectors[known:] @ query])
            best = np.argsort(-similar, kind="stable")[:k]
            rows[number], similarities[number] = near[best], similar[best]
        return rows, similarities


def out_of_date(noted: Approximation, ids: Ints) -> bool:
    """Whether so many pictures came or went that the fast search should be built again."""
    known = int(np.searchsorted(ids, noted.below))
    new, lost = len(ids) - known, noted.count - known
    return new >= EXACT_BELOW or new + lost > noted.count // 5


def least_effort(
    efforts: Iterable[int],
    own: Sequence[int],
    truth: Sequence[Sequence[int]],
    search: Callable[[int], Sequence[Sequence[int]]],
) -> tuple[int, float]:
    """The least effort with which ``search`` finds enough of the true neighbours, and the recall.

    Pictures of the index are the queries, with the ids ``own``, and do not count as neighbours of
    themselves. Where no effort is enough, the last one is returned.

    >>> least_effort([4, 8], [1], [[1, 2, 3]], lambda effort: [[1, 3, 4]])
    (8, 0.5)
    """
    for effort in efforts:
        shares = []
        for id, right, found in zip(own, truth, search(effort), strict=True):
            others = set(right) - {id}
            shares.append(len(others & set(found)) / len(others))
        recall = sum(shares) / len(shares)
        if recall >= TARGET:
            break
    return effort, recall
