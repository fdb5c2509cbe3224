"""Counting with tensor operations, whole rows of similarities at a time, on any device."""

from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from lookalike.evaluation.inputs import Distance
from lookalike.evaluation.precision import full_precision
from lookalike.evaluation.ranks import Counts
from lookalike.evaluation.relevance import Lists

__all__ = ["DenseCounter", "Rows", "Similarities"]

FEW = 16
"""Up to so many relevant items a query, one pass for each is faster than sorting the row."""


class Similarities:
    """Rows of similarities: some queries to the whole gallery.

    Equal gallery items must tie exactly, but a matrix product may round the same dot product
    differently in two columns. So each distinct item is multiplied once, and the column is then
    repeated.
    """

    def __init__(
        self,
        queries: Tensor,
        gallery: Tensor | None = None,
        distance: Distance = "cosine",
        dtype: torch.dtype = torch.float32,
    ) -> None:
        items = queries if gallery is None else gallery
        distinct, columns = torch.unique(items, dim=0, return_inverse=True)
        repeated = len(distinct) < len(items)
        self._columns = columns if repeated else None
        self._gallery = (distinct if repeated else items).to(dtype)
        self._queries = queries
        self._distance = distance
        self.shape = (len(queries), len(items))

    def rows(self, start: int, stop: int) -> Tensor:
        """Cosines, or minus half the squared distances; a new tensor, free to be changed."""
        rows = self._queries[start:stop].to(self._gallery)
        with full_precision():
            product = rows @ self._gallery.T
        if self._distance == "l2":
            product -= self._gallery.square().sum(1) / 2
            product -= rows.square().sum(1, keepdim=True) / 2
        return product if self._columns is None else product[:, self._columns]


class Rows(Protocol):
    """Anything that gives whole rows of similarities, such as a re-ranking."""

    @property
    def shape(self) -> tuple[int, int]:
        """Queries and gallery items."""

    def rows(self, start: int, stop: int) -> Tensor:
        """Similarities of the queries ``start`` to ``stop``, free to be changed."""


class DenseCounter:
    """Counts from whole rows; the similarities of the relevant items are read from the rows."""

    def __init__(self, similarities: Rows, memory_mb: int = 512) -> None:
        self._similarities = similarities
        queries, gallery = similarities.shape
        bytes_a_row = gallery * 8 * 3  # the row, its copy, comparisons; in double precision
        self.block = max(1, min(queries, memory_mb * 2**20 // bytes_a_row))

    def count(self, start: int, relevant: Lists, skipped: Lists) -> Counts:
        """The counts for the queries from ``start`` whose lists are given."""
        queries = len(relevant.offsets) - 1
        rows = self._similarities.rows(start, start + queries)
        device = rows.device
        owners = torch.from_numpy(relevant.owners).to(device)
        similar = rows[owners, torch.from_numpy(relevant.items).to(device)]
        rows[
            torch.from_numpy(skipped.owners).to(device),
            torch.from_numpy(skipped.items).to(device),
        ] = -torch.inf
        most = int(relevant.sizes.max(initial=0))
        places = torch.arange(len(similar), device=device)
        places -= torch.from_numpy(relevant.offsets[:-1]).to(device)[owners]
        levels = torch.full((queries, most), -torch.inf, dtype=rows.dtype, device=device)
        levels[owners, places] = similar
        levels = levels.sort(dim=1, descending=True).values
        above, at_least = _passes(rows, levels) if most <= FEW else _by_sorting(rows, levels)
        above, at_least = above[owners, places], at_least[owners, places]
        return Counts(
            above.cpu().numpy().astype(np.int64), (at_least - above).cpu().numpy().astype(np.int64)
        )


def _passes(rows: Tensor, levels: Tensor) -> tuple[Tensor, Tensor]:
    above = torch.empty(levels.shape, dtype=torch.int64, device=rows.device)
    at_least = torch.empty_like(above)
    for place in range(levels.shape[1]):
        level = levels[:, place : place + 1]
        above[:, place] = (rows > level).sum(1)
        at_least[:, place] = (rows >= level).sum(1)
    return above, at_least


def _by_sorting(rows: Tensor, levels: Tensor) -> tuple[Tensor, Tensor]:
    if rows.device.type == "cpu":
        rows.numpy().sort(axis=1)  # vectorised, several times faster than torch's
    else:
        rows = rows.sort(dim=1).values
    columns = rows.shape[1]
    below = torch.searchsorted(rows, levels, right=False)
    not_above = torch.searchsorted(rows, levels, right=True)
    return columns - not_above, columns - below
