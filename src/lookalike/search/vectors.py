"""Rows of unit length: scaled, compared with one another, and how well a fast search finds them."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from lookalike.evaluation.neighbours import exact_search
from lookalike.inference.encoder import Vectors

Ints: TypeAlias = NDArray[np.int64]

NEIGHBOURS = 10
TARGET = 0.97
"""The share of the true neighbours that a fast search should find."""
BLOCK = 16_384


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
    off = np.abs(lengths - 1)
    if (off <= 1e-6).all():
        return rows
    bad = np.flatnonzero(~(np.isfinite(lengths) & (lengths > 0)))
    if len(bad):
        reason = "is zero" if lengths[bad[0]] == 0 else "is not finite"
        raise NoDirectionError(int(bad[0]), reason)
    scaled = (rows / lengths[:, None]).astype(np.float32)
    return np.where((off <= 1e-6)[:, None], rows, scaled)


def nearest(
    queries: Vectors, vectors: NDArray[Any], k: int, rows: Ints | None = None
) -> tuple[Vectors, Ints]:
    """Similarities and rows of the ``k`` nearest among ``rows`` (None: all), nearest first.

    Every vector is compared; at most :data:`BLOCK` of them are copied or decoded at once.
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


def least_setting(
    settings: Iterable[int],
    own: Sequence[int],
    truth: Sequence[Sequence[int]],
    search: Callable[[int], Sequence[Sequence[int]]],
) -> tuple[int, float]:
    """The least ``nprobe`` or ``ef_search`` that finds enough true neighbours, and the recall.

    Pictures of the index are the queries, with the ids ``own``, and do not count as neighbours of
    themselves. Where no setting is enough, the last one is returned.

    >>> least_setting([4, 8], [1], [[1, 2, 3]], lambda nprobe: [[1, 3, 4]])
    (8, 0.5)
    """
    for setting in settings:
        recall = mean_recall(own, truth, search(setting))
        if recall >= TARGET:
            break
    return setting, recall


def mean_recall(
    own: Sequence[int], truth: Sequence[Sequence[int]], found: Sequence[Sequence[int]]
) -> float:
    """The mean share of the true neighbours that were found, without the queries themselves.

    >>> mean_recall([1], [[1, 2, 3]], [[1, 3, 4]])
    0.5
    """
    shares = []
    for id, expected, near in zip(own, truth, found, strict=True):
        others = set(expected) - {id}
        if others:
            shares.append(len(others & set(near)) / len(others))
    return sum(shares) / len(shares) if shares else 1.0
