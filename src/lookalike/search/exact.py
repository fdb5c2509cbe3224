"""The nearest of all vectors, by looking at every one."""

from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from lookalike.inference.encoder import Vectors

__all__ = ["Rows", "exact_search"]

ROWS_AT_A_TIME = 65_536

Rows: TypeAlias = NDArray[np.int64]


def exact_search(queries: Vectors, vectors: Vectors, k: int) -> tuple[Rows, Vectors]:
    """Rows and similarities of the ``k`` most similar ``vectors`` of each query, nearest first.

    The vectors may lie in a file that is mapped into memory: they are read in order, once.
    """
    asked = torch.from_numpy(np.ascontiguousarray(queries))
    best = asked.new_empty(len(asked), 0)
    rows = torch.empty(len(asked), 0, dtype=torch.int64)
    for start in range(0, len(vectors), ROWS_AT_A_TIME):
        piece = torch.from_numpy(np.asarray(vectors[start : start + ROWS_AT_A_TIME]))
        found = (asked @ piece.T).topk(min(k, len(piece)), dim=1)
        best = torch.cat([best, found.values], 1)
        rows = torch.cat([rows, found.indices + start], 1)
        if best.shape[1] > k:
            best, order = best.topk(k, dim=1)
            rows = rows.gather(1, order)
    return rows.numpy(), best.numpy()
