"""Rows of unit length: what an index stores, and what is searched for."""

import numpy as np
from numpy.typing import ArrayLike

from lookalike.inference.encoder import Vectors


class NoDirectionError(ValueError):
    """A row is zero or not finite."""

    def __init__(self, row: int, reason: str) -> None:
        super().__init__(f"row {row} {reason}")
        self.row, self.reason = row, reason


def unit_rows(given: ArrayLike) -> Vectors:
    """Rows [n, dim] scaled to length 1 in float32; those of length 1 stay as they are.

    >>> unit_rows([[3.0, 4.0]]).tolist()
    [[0.6000000238418579, 0.800000011920929]]
    """
    rows = np.ascontiguousarray(given, np.float32)
    # In float64 no square is too large or too small.
    lengths = np.sqrt(np.einsum("nd,nd->n", rows, rows, dtype=np.float64))
    bad = np.flatnonzero(~(np.isfinite(lengths) & (lengths > 0)))
    if len(bad):
        reason = "is zero" if lengths[bad[0]] == 0 else "is not finite"
        raise NoDirectionError(int(bad[0]), reason)
    off = np.flatnonzero(np.abs(lengths - 1) > 1e-6)
    if len(off):
        rows = rows.copy()
        rows[off] = (rows[off] / lengths[off, None]).astype(np.float32)
    return rows
