"""Nearest neighbours, exact, in blocks."""

import torch
from torch import Tensor

from lookalike.errors import BadInput
from lookalike.evaluation.inputs import ArrayLike, Distance, embeddings_of

__all__ = ["nearest"]


def nearest(
    queries: ArrayLike,
    gallery: ArrayLike,
    k: int,
    *,
    distance: Distance = "cosine",
    memory_mb: int = 512,
) -> tuple[Tensor, Tensor]:
    """The ``k`` most similar gallery items of each query: (similarities, indices).

    >>> similarities, indices = nearest([[1.0, 0.0]], [[0.0, 1.0], [2.0, 0.0]], k=1)
    >>> indices.tolist()
    [[1]]
    """
    if k < 1:
        raise BadInput(f"k must be at least 1, not {k}")
    rows = embeddings_of(queries, "queries", distance)
    items = embeddings_of(gallery, "gallery", distance)
    if len(items) == 0:
        raise BadInput("the gallery is empty")
    k = min(k, len(items))
    size = max(1, memory_mb * 2**20 // (len(items) * 8))
    found = [(part @ items.T).topk(k) for part in rows.split(size)]
    return torch.cat([f.values for f in found]), torch.cat([f.indices for f in found])
