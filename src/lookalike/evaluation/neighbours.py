"""Nearest neighbours: exact in blocks, or by a FAISS index for millions."""

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
    full_precision,
)

__all__ = ["IndexKind", "build_index", "exact_search", "nearest"]

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
    """The ``k`` most similar gallery items of each query.

    Args:
        queries: One row per query.
        gallery: One row per item. Fewer than ``k`` items are all returned.
        k: Number of neighbours.
        distance: "cosine", or "l2": similarities are then minus the Euclidean distances, so that
            more is always nearer.
        index: None searches exactly, in blocks; "flat" (exact), "ivf" and "hnsw" use FAISS.
        memory_mb: Memory for the blocks of the exact search.
        progress: Called with the number of queries that are done, and of all.

    Returns:
        Similarities and indices of the neighbours, both queries x k, nearest first. Equal
        similarities are in no particular order.

    Raises:
        BadInput: The gallery is empty, or has another number of columns than the queries.

    >>> similarities, indices = nearest([[1.0, 0.0]], [[0.0, 1.0], [2.0, 0.0]], k=1)
    >>> indices.tolist()
    [[1]]
    """
    check_choice(distance, Distance, "distance")
    if index is not None:
        check_choice(index, IndexKind, "index")
    if k < 1:
        raise BadInput(f"k must be at least 1, not {k}")
    rows = embeddings_of(queries, "queries", distance)
    items = embeddings_of(gallery, "gallery", distance).to(rows.device)
    if len(items) == 0:
        raise BadInput("the gallery is empty")
    if rows.shape[1] != items.shape[1]:
        raise BadInput(f"queries have {rows.shape[1]} columns and the gallery {items.shape[1]}")
    k = min(k, len(items))
    if index is not None:
        built = build_index(items.cpu().numpy(), index, distance)
        found, places = built.search(rows.cpu().numpy(), k)
        similar = torch.from_numpy(found).to(rows.device)
        if distance == "l2":
            similar = -similar.clamp_min(0).sqrt()
        return similar, torch.from_numpy(places).to(rows.device)
    block = max(1, min(len(rows), memory_mb * 2**20 // (4 * 3 * (COLUMNS + 2 * k))))
    parts = []
    for start in range(0, len(rows), block):
        parts.append(exact_search(rows[start : start + block], items, k, distance))
        if progress:
            progress(min(start + block, len(rows)), len(rows))
    return torch.cat([part[0] for part in parts]), torch.cat([part[1] for part in parts])


def exact_search(
    rows: Tensor, items: Tensor | NDArray[np.float32], k: int, distance: Distance = "cosine"
) -> tuple[Tensor, Tensor]:
    """The ``k`` nearest of some rows, taken as they are; of unit length for the cosine.

    ``items`` may be an array in a file mapped into memory: it is read once, in order.
    """
    values = rows.new_empty(len(rows), 0)
    places = torch.empty(len(rows), 0, dtype=torch.int64, device=rows.device)
    for start in range(0, len(items), COLUMNS):
        piece = items[start : start + COLUMNS]
        if not isinstance(piece, Tensor):
            piece = torch.from_numpy(np.asarray(piece)).to(rows.device)
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


def build_index(rows: NDArray[np.float32], kind: IndexKind, distance: Distance) -> Any:
    """A FAISS index of rows that are taken as they are.

    "ivf" visits an eighth of its sqrt(n) cells, at least 8; "hnsw" has 32 links per item.
    """
    import faiss

    metric = faiss.METRIC_INNER_PRODUCT if distance == "cosine" else faiss.METRIC_L2
    cells = max(1, int(len(rows) ** 0.5))
    recipe = {"flat": "Flat", "ivf": f"IVF{cells},Flat", "hnsw": "HNSW32,Flat"}[kind]
    index: Any = faiss.index_factory(rows.shape[1], recipe, metric)
    if kind == "hnsw":
        index.hnsw.efConstruction = 80
        index.hnsw.efSearch = 128
    elif kind == "ivf":
        index.cp.min_points_per_centroid = 1
        index.nprobe = min(cells, max(8, cells // 8))
        index.train(rows)
    index.add(rows)
    return index
