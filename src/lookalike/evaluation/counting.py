"""Counting on the CPU: tiles of similarities, scanned by compiled loops while they are in cache."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lookalike.evaluation import kernels
from lookalike.evaluation.inputs import DistanceName, full_precision
from lookalike.evaluation.ranks import RankCounts
from lookalike.evaluation.relevance import RaggedArray, Relevance

TILE = (2048, 4096)
"""Rows and columns multiplied together: large enough for the product, small enough for caches."""

PADDING = 16
"""Extra numbers per row of a tile: with rows of a power of two, all numbers of a column would share
the same few cache lines."""

BYTES_PER_PAIR = 64
"""Memory for each relevant pair: its level, the two edges of its band, counts and indices."""

SAMPLE, ITEMS = 16, 512
"""Queries, and items for each, that decide whether single precision tells them apart."""


class TileCounter:
    """RankCounts, for each relevant item, the wrong answers that are more or equally similar."""

    def __init__(
        self,
        queries: Tensor,
        gallery: Tensor | None,
        distance: DistanceName = "cosine",
        memory_mb: int = 512,
    ) -> None:
        self._itself = gallery is None
        budget = memory_mb * 2**20
        self.pairs = max(1, budget * 3 // 4 // BYTES_PER_PAIR)
        rows, columns = TILE
        while rows * columns * 4 > max(budget // 4, 2**16):
            rows, columns = rows // 2, columns // 2
        # Tiles on the diagonal are multiplied whole: for small sets they must be small.
        while rows > 1024 and rows * 12 > len(queries):
            rows //= 2
        self._tile = rows, columns
        gallery = queries if gallery is None else gallery
        self._euclidean = distance == "l2"
        self._queries, self._gallery = queries.numpy(), gallery.numpy()
        self._left, self._right = queries, gallery
        if self._euclidean:
            self._left, self._right = _products_to_distances(queries, gallery)
        longest = float(self._right.norm(dim=1).max())
        # |rounded - true| <= gamma sum |a_k b_k| <= gamma |a| |b| in any order of summation
        # (Higham, Accuracy and Stability of Numerical Algorithms, section 3.1).
        unit = (self._left.shape[1] + 4) * 2.0**-24  # 4: room for the rounding of the input
        lengths = self._left.norm(dim=1).double().numpy()
        self._band = 1.01 * unit / (1 - unit) * longest * lengths

    def near_tie_fraction(self, relevance: Relevance) -> float:
        """The share of similarities that single precision cannot tell from a relevant item's.

        From a sample of queries. Near 1 for a collapsed network, near 0 otherwise; 1 where
        squares leave the range of single precision.
        """
        if not np.isfinite(self._band).all():
            return 1.0
        sample = np.unique(np.linspace(0, len(self._queries) - 1, SAMPLE).astype(np.int64))
        with full_precision():
            rows = (self._left[torch.from_numpy(sample)] @ self._right.T).numpy()
        relevant, skipped = relevance.lists_of(sample)
        near = total = 0
        for number, (query, row) in enumerate(zip(sample, rows, strict=True)):
            levels = np.sort(row[relevant.of_query(number)])
            if len(levels) == 0:
                continue
            row = np.delete(row, skipped.of_query(number))
            row = row[:: max(1, len(row) // ITEMS)]
            band = np.float32(self._band[query])
            reached = np.searchsorted(levels, row + band, side="right")
            near += int((reached > np.searchsorted(levels, row - band)).sum())
            total += len(row)
        return near / max(total, 1)

    def count(
        self,
        start: int,
        relevant: RaggedArray,
        skipped: RaggedArray,
        symmetric: bool = False,
        progress: Callable[[float], None] | None = None,
    ) -> RankCounts:
        """The counts for the queries from ``start`` whose lists are given.

        ``symmetric``: the lists treat (a, b) and (b, a) alike. Then, if these are all queries
        of a set that is its own gallery, each pair is multiplied once only.
        """
        number = len(relevant.offsets) - 1
        half = symmetric and self._itself and number == len(self._queries)
        queries = self._queries[start : start + number]
        left = self._left[start : start + number]
        with ThreadPoolExecutor(torch.get_num_threads()) as pool:
            work = _Work(pool)
            exact = np.empty(len(relevant.items))
            lists = (queries, self._gallery, self._euclidean, relevant.offsets, relevant.items)
            work.share(number, kernels.exact_scores, *lists, half, exact)
            work.sort(exact, relevant)
            band = np.repeat(self._band[start : start + number], relevant.sizes)
            edges = _round_to(exact - band, -np.inf), _round_to(exact + band, np.inf)
            del band
            above, equal = np.zeros((2, len(exact)), np.int64)
            offsets = relevant.offsets
            levels = kernels.Levels(self._euclidean, offsets, exact, *edges, above, equal)
            tiles = list(_tiles(number, len(self._gallery), self._tile, half))
            for done, (top, bottom, begin, end) in enumerate(tiles):
                rows, columns = bottom - top, end - begin
                tile = work.product(left[top:bottom], self._right[begin:end])
                at = (top, begin, queries)
                rest = (self._gallery, levels, skipped.offsets, skipped.items)
                work.share(rows, kernels.count_rows, tile, columns, *at, *rest)
                if half and begin >= bottom:
                    work.share(columns, kernels.count_columns, tile, rows, *at, levels)
                if progress:
                    progress((done + 1) / len(tiles))
            work.share(number, kernels.finish, levels)
        return above, equal


class _Work:
    """Threads that share a range, and one buffer for all products."""

    def __init__(self, pool: ThreadPoolExecutor) -> None:
        self._pool = pool
        self._buffer = torch.empty(0)

    def share(self, number: int, function: Callable[..., None], *arguments: object) -> None:
        """Call ``function(first, last, *arguments)`` on parts of the range up to ``number``."""
        parts = torch.get_num_threads() * (4 if number > 256 else 1)
        cuts = [number * part // parts for part in range(parts + 1)]
        list(self._pool.map(lambda part: function(*part, *arguments), pairwise(cuts)))

    def sort(self, scores: NDArray[np.float64], lists: RaggedArray) -> None:
        """Sort each list ascending: as rows of one table, unless most of it would be padding."""
        number, sizes = len(lists.sizes), lists.sizes
        most = int(sizes.max(initial=0))
        if number * most > 2 * len(scores):
            self.share(number, kernels.sort_lists, lists.offsets, scores)
            return
        table = np.full((number, most), np.inf)
        filled = np.arange(most) < sizes[:, None]
        table[filled] = scores
        table.sort(axis=1)  # vectorised, many times faster than compiled code sorts a short list
        scores[:] = table[filled]

    def product(self, left: Tensor, right: Tensor) -> NDArray[np.float32]:
        """The tile, in rows that are a little longer than needed (see ``PADDING``)."""
        size = len(left) * (len(right) + PADDING)
        if self._buffer.numel() < size:
            self._buffer = torch.empty(size)
        tile = self._buffer[:size].view(len(left), len(right) + PADDING)
        with full_precision():
            torch.mm(left, right.T, out=tile[:, : len(right)])
        numbers: NDArray[np.float32] = tile.numpy()
        return numbers


def _tiles(
    queries: int, gallery: int, tile: tuple[int, int], half: bool
) -> Iterator[tuple[int, int, int, int]]:
    """(first row, last row, first column, last column); ``half``: from the diagonal on."""
    rows, columns = tile
    for top in range(0, queries, rows):
        bottom = min(top + rows, queries)
        begin = 0
        if half:
            yield top, bottom, top, bottom
            begin = bottom
        for column in range(begin, gallery, columns):
            yield top, bottom, column, min(column + columns, gallery)


def _products_to_distances(queries: Tensor, gallery: Tensor) -> tuple[Tensor, Tensor]:
    """Two more columns, so that the product of two rows is -|q - g|^2 / 2.

    The rows become 1 + |q|^2 / 2 long. Squares are summed in double precision: the columns are
    then wrong by one rounding only, which the band allows for.
    """

    def columns(rows: Tensor) -> tuple[Tensor, Tensor]:
        lengths = torch.linalg.vector_norm(rows, dim=1, keepdim=True, dtype=torch.float64)
        return lengths.square().div(-2).float(), torch.ones(len(rows), 1)

    own, others = columns(queries), columns(gallery)
    return torch.cat([queries, *own], 1), torch.cat([gallery, *others[::-1]], 1)


def _round_to(values: NDArray[np.float64], towards: float) -> NDArray[np.float32]:
    """To single precision, rounded away from the value."""
    return np.nextafter(values.astype(np.float32), np.float32(towards))
