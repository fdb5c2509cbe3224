"""From embeddings to the ranks of the relevant items.

On the CPU tiles of similarities are counted by compiled loops (``counting.py``). Whole rows of
similarities are counted with tensor operations: on a GPU, for a collapsed network, and for
similarities that are no plain product, such as those of a re-ranking.
"""

from collections.abc import Callable, Iterator
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from lookalike.evaluation.inputs import DistanceName, full_precision
from lookalike.evaluation.ranks import RankCounts, Ranks, Ties
from lookalike.evaluation.relevance import RaggedArray, Relevance

ProgressCallback = Callable[[int, int], None]

NEAR_TIES = 0.25
"""Above this share of near-equal similarities, single precision saves no time any more."""

FEW = 16
"""Up to so many relevant items per query, one pass for each is faster than sorting the row."""


def rank_embeddings(
    queries: Tensor,
    gallery: Tensor | None,
    relevance: Relevance,
    *,
    distance: DistanceName = "cosine",
    ties: Ties = "worst",
    memory_mb: int | None = None,
    progress: ProgressCallback | None = None,
    span: tuple[int, int] | None = None,
) -> Iterator[Ranks]:
    """Ranks of the relevant items in blocks of queries, within the memory budget.

    ``gallery`` None: the queries themselves. ``span``: only these queries. ``progress`` is called
    with the number of queries that are done, and of all.
    """
    if span is not None and span[0] == span[1]:
        return
    memory_mb = block_memory(queries.device) if memory_mb is None else memory_mb
    if queries.device.type != "cpu":
        rows = Similarities(queries, gallery, distance)
        yield from rank_rows(rows, relevance, ties, memory_mb, progress, span)
        return

    from lookalike.evaluation.counting import TileCounter  # numba: only where it is used

    counter = TileCounter(queries, gallery, distance, memory_mb)
    if counter.near_tie_fraction(relevance) > NEAR_TIES:
        rows = Similarities(queries, gallery, distance, torch.float64)
        yield from rank_rows(rows, relevance, ties, memory_mb, progress, span)
        return
    first, last = span or (0, len(queries))
    for start, stop in _blocks(relevance, first, last, counter.pairs):
        relevant, skipped = relevance.lists(start, stop)

        def report(share: float, done: int = start - first, number: int = stop - start) -> None:
            if progress:
                progress(done + int(share * number), last - first)

        counts = counter.count(start, relevant, skipped, relevance.symmetric, report)
        yield Ranks.of(relevant, counts, ties)


def block_memory(device: torch.device) -> int:
    """Megabytes for blocks of similarities: 512, on a GPU half of what is free.

    >>> block_memory(torch.device("cpu"))
    512
    """
    if device.type != "cuda":
        return 512
    free, _ = torch.cuda.mem_get_info(device)
    return max(64, free // 2 // 2**20)


class Rows(Protocol):
    """Anything that gives whole rows of similarities, such as a re-ranking."""

    @property
    def shape(self) -> tuple[int, int]:
        """Queries and gallery items."""

    def rows(self, start: int, stop: int) -> Tensor:
        """Similarities of the queries ``start`` to ``stop``; the caller may change them."""


def rank_rows(
    similarities: Rows,
    relevance: Relevance,
    ties: Ties = "worst",
    memory_mb: int = 512,
    progress: ProgressCallback | None = None,
    span: tuple[int, int] | None = None,
) -> Iterator[Ranks]:
    """Ranks of the relevant items from whole rows of any similarities."""
    queries, gallery = similarities.shape
    bytes_per_row = gallery * 8 * 3  # the row, its copy, comparisons; in double precision
    block = max(1, min(queries, memory_mb * 2**20 // bytes_per_row))
    first, last = span or (0, queries)
    for start in range(first, last, block):
        stop = min(start + block, last)
        relevant, skipped = relevance.lists(start, stop)
        counts = count_in_rows(similarities.rows(start, stop), relevant, skipped)
        yield Ranks.of(relevant, counts, ties)
        if progress:
            progress(stop - first, last - first)


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
        distance: DistanceName = "cosine",
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
        """Cosines, or minus half the squared distances, as a new tensor."""
        rows = self._queries[start:stop].to(self._gallery)
        with full_precision():
            product = rows @ self._gallery.T
        if self._distance == "l2":
            product -= self._gallery.square().sum(1) / 2
            product -= rows.square().sum(1, keepdim=True) / 2
        return product if self._columns is None else product[:, self._columns]


def count_in_rows(rows: Tensor, relevant: RaggedArray, skipped: RaggedArray) -> RankCounts:
    """The counts for some queries, from the rows of their similarities, which are changed."""
    owners, items = relevant.pairs(rows.device)
    similar = rows[owners, items]
    rows[skipped.pairs(rows.device)] = -torch.inf
    most = int(relevant.sizes.max(initial=0))
    starts = torch.from_numpy(relevant.offsets[:-1]).to(owners.device)
    places = torch.arange(len(similar), device=rows.device) - starts[owners]
    levels = rows.new_full((len(rows), most), -torch.inf)
    levels[owners, places] = similar
    levels = levels.sort(dim=1, descending=True).values
    above, at_least = _by_passes(rows, levels) if most <= FEW else _by_sorting(rows, levels)
    above, at_least = above[owners, places].cpu(), at_least[owners, places].cpu()
    return above.numpy(), (at_least - above).numpy()


def _by_passes(rows: Tensor, levels: Tensor) -> tuple[Tensor, Tensor]:
    """How many values of each row are above, and at least, each of its levels."""
    above = torch.empty(levels.shape, dtype=torch.int64, device=rows.device)
    at_least = torch.empty_like(above)
    for place, level in enumerate(levels[:, :, None].unbind(1)):
        above[:, place] = (rows > level).sum(1)
        at_least[:, place] = (rows >= level).sum(1)
    return above, at_least


def _by_sorting(rows: Tensor, levels: Tensor) -> tuple[Tensor, Tensor]:
    """The same by sorting each row once: for many levels."""
    if rows.device.type == "cpu":
        rows.numpy().sort(axis=1)  # vectorised, several times faster than torch's
    else:
        rows = rows.sort(dim=1).values
    columns = rows.shape[1]
    below = torch.searchsorted(rows, levels, right=False)
    not_above = torch.searchsorted(rows, levels, right=True)
    return columns - not_above, columns - below


def _blocks(relevance: Relevance, first: int, last: int, pairs: int) -> Iterator[tuple[int, int]]:
    """Ranges of queries of at most ``pairs`` relevant pairs (but at least one query)."""
    total = np.cumsum(relevance.count()[first:last])
    start = 0
    while start < last - first:
        before = total[start - 1] if start else 0
        stop = max(start + 1, int(np.searchsorted(total, before + pairs, side="right")))
        yield first + start, first + stop
        start = stop
