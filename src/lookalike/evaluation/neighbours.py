"""Nearest neighbours: exact in blocks, or by a FAISS index for millions."""

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lookalike.errors import BadInput
from lookalike.evaluation import inputs
from lookalike.evaluation.inputs import ArrayLike, DistanceName

IndexKind = Literal["flat", "ivf", "hnsw"]

COLUMNS = 16384
"""Gallery items compared at once: the best k so far are merged with the best of these."""


def nearest(
    queries: ArrayLike,
    gallery: ArrayLike,
    k: int,
    *,
    distance: DistanceName = "cosine",
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
    inputs.check_choice(distance, DistanceName, "distance")
    if index is not None:
        inputs.check_choice(index, IndexKind, "index")
    if k < 1:
        raise BadInput(f"k must be at least 1, not {k}")
    rows = inputs.embeddings_of(queries, "queries", distance)
    items = inputs.embeddings_of(gallery, "gallery", distance).to(rows.device)
    if len(items) == 0:
        raise BadInput("the gallery is empty")
    if rows.shape[1] != items.shape[1]:
        raise BadInput(f"queries have {rows.shape[1]} columns and the gallery {items.shape[1]}")
    k = min(k, len(items))
    if index is not None:
        found = _faiss_search(rows.cpu().numpy(), items.cpu().numpy(), k, index, distance)
        return found[0].to(rows.device), found[1].to(rows.device)
    block = max(1, min(len(rows), memory_mb * 2**20 // (4 * 3 * (COLUMNS + 2 * k))))
    parts = []
    for start in range(0, len(rows), block):
        parts.append(exact_search(rows[start : start + block], items, k, distance))
        if progress:
            progress(min(start + block, len(rows)), len(rows))
    return torch.cat([part[0] for part in parts]), torch.cat([part[1] for part in parts])


def exact_search(
    rows: Tensor, items: Tensor, k: int, distance: DistanceName = "cosine"
) -> tuple[Tensor, Tensor]:
    """The ``k`` nearest of one block of queries, merged over pieces of the gallery.

    For the cosine all rows have unit length already. ``items`` may be mapped from a file: they are
    read in order, once.
    """
    values = rows.new_empty(len(rows), 0)
    places = torch.empty(len(rows), 0, dtype=torch.int64, device=rows.device)
    for start in range(0, len(items), COLUMNS):
        piece = items[start : start + COLUMNS]
        if distance == "cosine":
            with inputs.full_precision():
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


def _faiss_search(
    rows: NDArray[np.float32],
    items: NDArray[np.float32],
    k: int,
    kind: IndexKind,
    distance: DistanceName,
) -> tuple[Tensor, Tensor]:
    """The ``k`` nearest by a FAISS index; "ivf" visits an eighth of its cells, at least 8."""
    import faiss

    cells = max(1, int(len(items) ** 0.5))
    factory = {"flat": "Flat", "ivf": f"IVF{cells},Flat", "hnsw": "HNSW32"}[kind]
    metric = faiss.METRIC_INNER_PRODUCT if distance == "cosine" else faiss.METRIC_L2
    index: Any = faiss.index_factory(items.shape[1], factory, metric)
    if kind == "hnsw":
        index.hnsw.efConstruction, index.hnsw.efSearch = 80, 128
    elif kind == "ivf":
        index.cp.min_points_per_centroid = 1
        index.cp.spherical = distance == "cosine"
        index.nprobe = min(cells, max(8, cells // 8))
        index.train(items)
    index.add(items)
    similar, places = (torch.from_numpy(found) for found in index.search(rows, k))
    return (-similar.clamp_min(0).sqrt() if distance == "l2" else similar), places
