"""Comparing with every vector, or with chosen ones, a block at a time."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from lookalike.evaluation.neighbours import exact_search
from lookalike.inference.encoder import Vectors

BLOCK = 16_384

Ints = NDArray[np.int64]


def nearest(
    queries: Vectors, vectors: NDArray[Any], k: int, rows: Ints | None = None
) -> tuple[Vectors, Ints]:
    """Similarities and rows of the ``k`` nearest among ``rows`` (None: all), nearest first.

    At most :data:`BLOCK` vectors are copied or decoded at once.
    """
    count = len(vectors) if rows is None else len(rows)
    k = min(k, count)
    query_rows = torch.from_numpy(queries)
    if rows is None and vectors.dtype == np.float32:
        values, places = exact_search(query_rows, torch.from_numpy(vectors), k)
        return values.numpy(), places.numpy()
    best = torch.empty(len(queries), 0)
    found = torch.empty(len(queries), 0, dtype=torch.int64)
    for start in range(0, count, BLOCK):
        stop = min(start + BLOCK, count)
        chosen = slice(start, stop) if rows is None else rows[start:stop]
        block = torch.from_numpy(np.ascontiguousarray(vectors[chosen], np.float32))
        values, places = exact_search(query_rows, block, min(k, stop - start))
        best, order = torch.cat([best, values], 1).topk(min(k, stop), dim=1)
        found = torch.cat([found, places + start], 1).gather(1, order)
    local = found.numpy()
    return best.numpy(), local if rows is None else rows[local]
