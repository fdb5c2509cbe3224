"""Counting with tensor operations, whole rows of similarities at a time, on any device."""

import numpy as np
import torch
from torch import Tensor

from lookalike.evaluation.inputs import Distance
from lookalike.evaluation.ranks import Counts
from lookalike.evaluation.relevance import Lists

__all__ = ["DenseCounter"]

FEW = 16
"""Up to so many relevant items a query, one pass for each is faster than sorting the row."""


class DenseCounter:
    """Counts from rows of similarities; the relevant ones are read from the same rows.

    Equal gallery items must tie exactly, but a matrix product may round the same dot product
    differently in two columns. So each distinct item is multiplied once, and the column is then
    repeated.
    """

    def __init__(
        self,
        queries: Tensor,
        gallery: Tensor | None,
        distance: Distance,
        memory_mb: int,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        self._queries = queries
        self._distance = distance
        self._dtype = dtype
        items = queries if gallery is None else gallery
        distinct, columns = torch.unique(items, dim=0, return_inverse=True)
        repeated = len(distinct) < len(items)
        self._columns = columns if repeated else None
        self._gallery = (distinct if repeated else items).to(dtype)
        bytes_a_row = len(items) * dtype.itemsize * 3  # the row, its sorted copy, comparisons
        self.rows = max(1, min(len(queries), memory_mb * 2**20 // bytes_a_row))

    def similarities(self, start: int, stop: int) -> Tensor:
        """Cosines, or minus half the squared distances, of some queries to the whole gallery."""
        rows = self._queries[start:stop].to(self._dtype)
        product = rows @ self._gallery.T
        if self._distance == "l2":
            product -= self._gallery.square().sum(1) / 2
            product -= rows.square().sum(1, keepdim=True) / 2
        return product if self._columns is None else product[:, self._columns]

    def count(self, start: int, relevant: Lists, skipped: Lists) -> Counts:
        """The counts for the queries from ``start`` whose lists are given."""
        queries = len(relevant.offsets) - 1
        device = self._queries.device
        rows = self.similarities(start, start + queries)
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
    for place, level in enumerate(levels.split(1, dim=1)):
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
