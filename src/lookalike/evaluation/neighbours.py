"""Nearest neighbours: exact in blocks, or by a FAISS index for millions; k-NN classification."""

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lookalike.errors import BadInput
from lookalike.evaluation.inputs import (
    ArrayLike,
    Distance,
    check_choice,
    embeddings_of,
    labels_of,
)
from lookalike.evaluation.precision import full_precision

__all__ = ["IndexKind", "build_index", "empty_index", "exact_search", "knn_accuracy", "nearest"]

IndexKind = Literal["flat", "ivf", "hnsw"]

COLUMNS = 16384
"""Gallery items compared at once: the best k so far are merged with the best of these."""


def nearest(
    queries: ArrayLike,
    gallery: ArrayLike,
    k: int,
    *,
    distance: Distance = "cosine",
    index: IndexKind | None = None,
    memory_mb: int = 512,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[Tensor, Tensor]:
    """The ``k`` most similar gallery items of each query: (similarities, indices).

    Similarities are cosines; with "l2" they are minus the Euclidean distances, so that more is
    always nearer. A gallery of fewer than ``k`` items gives them all. Without ``index`` the
    search is exact, in blocks; "flat" (exact), "ivf" and "hnsw" use FAISS. Equal similarities
    are in no particular order.

    >>> similarities, indices = nearest([[1.0, 0.0]], [[0.0, 1.0], [2.0, 0.0]], k=1)
    >>> indices.tolist()
    [[1]]
    """
    rows, items = _checked(queries, gallery, k, distance)
    k = min(k, len(items))
    if index is not None:
        found = build_index(items, index, distance)
        return _searched(found, rows, k, distance)
    block = max(1, min(len(rows), memory_mb * 2**20 // (4 * 3 * (COLUMNS + 2 * k))))
    best, where = [], []
    for start in range(0, len(rows), block):
        values, places = exact_search(rows[start : start + block], items, k, distance)
        best.append(values)
        where.append(places)
        if progress:
            progress(min(start + block, len(rows)), len(rows))
    return torch.cat(best), torch.cat(where)


def build_index(gallery: ArrayLike, kind: IndexKind, distance: Distance = "cosine") -> Any:
    """A FAISS index of the gallery (for the cosine, of its rows at unit length).

    "flat" compares with everything; "ivf" visits an eighth of sqrt(n) cells, at least 8;
    "hnsw" walks a graph with 32 links an item.
    """
    check_choice(kind, IndexKind, "index")
    rows = embeddings_of(gallery, "gallery", distance).cpu().numpy()
    cells = max(1, int(len(rows) ** 0.5))
    index = empty_index(rows, kind, cells, distance)
    if kind == "hnsw":
        index.hnsw.efSearch = 128
    elif kind == "ivf":
        index.nprobe = min(cells, max(8, cells // 8))
    index.add(rows)
    return index


def empty_index(
    sample: NDArray[np.float32],
    kind: IndexKind | Literal["pq"],
    cells: int,
    distance: Distance = "cosine",
) -> Any:
    """A FAISS index without items, trained on ``sample`` where it has cells ("ivf", "pq")."""
    import faiss

    width = sample.shape[1]
    parts = next(m for m in range(-(-width // 2), 0, -1) if width % m == 0)
    names = {"hnsw": "HNSW32", "ivf": f"IVF{cells},Flat", "pq": f"IVF{cells},PQ{parts}x8"}
    metric = faiss.METRIC_INNER_PRODUCT if distance == "cosine" else faiss.METRIC_L2
    index: Any = faiss.index_factory(width, names.get(kind, "Flat"), metric)
    if kind == "hnsw":
        index.hnsw.efConstruction = 80
    elif kind != "flat":
        index.cp.min_points_per_centroid = 1
        index.cp.spherical = distance == "cosine"
        index.train(sample)
    return index


def knn_accuracy(
    queries: ArrayLike,
    labels: ArrayLike,
    gallery: ArrayLike,
    gallery_labels: ArrayLike,
    k: int = 20,
    *,
    temperature: float = 0.07,
    distance: Distance = "cosine",
) -> float:
    """Share of queries whose class wins the vote of the ``k`` nearest.

    Each neighbour votes with weight e^(s / temperature) (Wu et al., CVPR 2018).

    >>> knn_accuracy([[1.0, 0.1]], ["a"], [[1.0, 0.0], [0.0, 1.0]], ["a", "b"], k=2)
    1.0
    """
    wanted, known = labels_of(labels, "labels"), labels_of(gallery_labels, "gallery labels")
    if wanted.ndim != 1 or known.ndim != 1:
        raise BadInput("k-NN classification needs one label an item, not a multi-hot table")
    if temperature <= 0:
        raise BadInput(f"temperature must be above 0, not {temperature}")
    if len(queries) != len(wanted):
        raise BadInput(f"there are {len(queries)} queries but {len(wanted)} labels")
    if len(gallery) != len(known):
        raise BadInput(f"the gallery has {len(gallery)} items but {len(known)} labels")
    similarities, indices = nearest(queries, gallery, k, distance=distance)
    classes, codes = np.unique(known, return_inverse=True)
    voters = torch.from_numpy(codes)[indices.cpu()]
    weights = (similarities.cpu().double() / temperature).softmax(dim=1)
    # Only the classes among the neighbours can win: compare the k voters with each other.
    votes = (weights[:, None, :] * (voters[:, :, None] == voters[:, None, :])).sum(2)
    winners = voters.gather(1, votes.argmax(1, keepdim=True))[:, 0].numpy()
    return float((classes[winners] == wanted).mean())


def _checked(
    queries: ArrayLike, gallery: ArrayLike, k: int, distance: Distance
) -> tuple[Tensor, Tensor]:
    check_choice(distance, Distance, "distance")
    if k < 1:
        raise BadInput(f"k must be at least 1, not {k}")
    rows = embeddings_of(queries, "queries", distance)
    items = embeddings_of(gallery, "gallery", distance).to(rows.device)
    if len(items) == 0:
        raise BadInput("the gallery is empty")
    if rows.shape[1] != items.shape[1]:
        raise BadInput(f"queries have {rows.shape[1]} columns and the gallery {items.shape[1]}")
    return rows, items


def exact_search(
    rows: Tensor, items: Tensor, k: int, distance: Distance = "cosine"
) -> tuple[Tensor, Tensor]:
    """The k best of one block of queries, merged over pieces of the gallery, read in order, once.

    For the cosine all rows have unit length already; ``items`` may be mapped from a file.
    """
    values = rows.new_empty(len(rows), 0)
    places = torch.empty(len(rows), 0, dtype=torch.int64, device=rows.device)
    for start in range(0, len(items), COLUMNS):
        piece = items[start : start + COLUMNS]
        if distance == "cosine":
            with full_precision():
                similar = rows @ piece.T
        else:
            # In double precision: the difference of large squares would lose small distances.
            similar = -torch.cdist(rows.double(), piece.double()).to(rows)
        best = similar.topk(min(k, len(piece)), dim=1)
        values = torch.cat([values, best.values], 1)
        places = torch.cat([places, best.indices + start], 1)
        if values.shape[1] > k:
            values, order = values.topk(k, dim=1)
            places = places.gather(1, order)
    return values, places


def _searched(index: Any, rows: Tensor, k: int, distance: Distance) -> tuple[Tensor, Tensor]:
    found, places = index.search(rows.cpu().numpy(), k)
    similar = torch.from_numpy(found)
    if distance == "l2":
        similar = -similar.clamp_min(0).sqrt()
    return similar.to(rows.device), torch.from_numpy(places).to(rows.device)
