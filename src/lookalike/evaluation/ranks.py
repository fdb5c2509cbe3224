"""The ranks of the relevant items: all that the rank metrics need, and where they come from.

The rank of a relevant item is 1 + the number of gallery items that are more similar to the
query. So ranks come from counting, block by block of similarities; nothing is sorted, and no list
of neighbours is kept.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, Protocol, TypeAlias, TypedDict, Unpack

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lookalike.evaluation.inputs import DistanceName, full_precision
from lookalike.evaluation.relevance import Ints, RaggedArray, Relevance

Ties = Literal["worst", "average", "best"]
ProgressCallback = Callable[[int, int], None]

NEAR_TIES = 0.25
"""Above this share of near-equal similarities, single precision saves no time any more."""

MEMORY_MB = 512

FEW = 16
"""Up to so many relevant items per query, one pass for each is faster than sorting the row."""

RankCounts: TypeAlias = tuple[Ints, Ints]
"""How many wrong answers are more similar than each relevant item, and how many tie with it.

By query, and then from the most to the least similar relevant item.
"""


@dataclass(frozen=True)
class Ranks:
    """The ranks r_1 <= r_2 <= ... <= r_R of the relevant items of each query of a block.

    Args:
        offsets: Query q has the values from ``offsets[q]`` to ``offsets[q + 1]``.
        values: The ranks, from 1; a rank in the middle of a tie may be a half.
    """

    offsets: Ints
    values: NDArray[np.float64]

    @staticmethod
    def of(relevant: RaggedArray, counts: RankCounts, ties: Ties) -> "Ranks":
        """Ranks from counts.

        Among equally similar items the relevant come last ("worst"), first ("best"), or in the
        middle of the two ("average").
        """
        above, equal = counts
        place = np.arange(len(relevant.items)) - np.repeat(relevant.offsets[:-1], relevant.sizes)
        share = {"worst": 1.0, "average": 0.5, "best": 0.0}[ties]
        return Ranks(relevant.offsets, 1.0 + place + above + share * equal)

    @cached_property
    def relevant(self) -> Ints:
        """R, the number of relevant items of each query."""
        return np.diff(self.offsets)

    @cached_property
    def place(self) -> NDArray[np.float64]:
        """The j of each r_j, from 1."""
        first = np.repeat(self.offsets[:-1], self.relevant)
        return np.arange(1.0, len(self.values) + 1) - first

    @cached_property
    def within_r(self) -> NDArray[np.bool_]:
        """Whether r_j <= R."""
        return self.values <= np.repeat(self.relevant, self.relevant)

    def total(self, per_item: NDArray[Any]) -> NDArray[np.float64]:
        """The sum over the relevant items of each query."""
        return np.bincount(self._queries, per_item, len(self.relevant)).astype(np.float64)

    def mean(self, per_item: NDArray[Any]) -> NDArray[np.float64]:
        """The mean over the relevant items of each query; 0 where there are none."""
        return self.total(per_item) / np.maximum(self.relevant, 1)

    def first(self) -> NDArray[np.float64]:
        """r_1 of each query; infinite where nothing is relevant."""
        best = np.full(len(self.relevant), np.inf)
        has = self.relevant > 0
        best[has] = self.values[self.offsets[:-1][has]]
        return best

    @cached_property
    def _queries(self) -> Ints:
        return np.repeat(np.arange(len(self.relevant)), self.relevant)


class RankOptions(TypedDict, total=False):
    """How ranks are taken."""

    ties: Ties
    memory_mb: int | None
    """For blocks of similarities; None: 512, on a GPU half of what is free."""
    progress: ProgressCallback | None
    """Called with the number of queries that are done, and of all."""
    span: tuple[int, int] | None
    """Only these queries."""


def rank_embeddings(
    queries: Tensor,
    gallery: Tensor | None,
    relevance: Relevance,
    *,
    distance: DistanceName = "cosine",
    **options: Unpack[RankOptions],
) -> Iterator[Ranks]:
    """Ranks of the relevant items in blocks of queries; ``gallery`` None: the queries themselves.

    On the CPU tiles of similarities are counted by compiled loops (``counting.py``). Whole rows are
    counted with tensor operations: on a GPU, and for a collapsed network.
    """
    first, last = options.get("span") or (0, len(queries))
    if first == last:
        return
    memory_mb = options.get("memory_mb") or block_memory(queries.device)
    options["memory_mb"] = memory_mb
    if queries.device.type != "cpu":
        yield from rank_rows(Similarities(queries, gallery, distance), relevance, **options)
        return

    from lookalike.evaluation.counting import TileCounter  # numba: only where it is used

    counter = TileCounter(queries, gallery, distance, memory_mb)
    if counter.near_tie_fraction(relevance) > NEAR_TIES:
        rows = Similarities(queries, gallery, distance, torch.float64)
        yield from rank_rows(rows, relevance, **options)
        return
    progress, ties = options.get("progress"), options.get("ties", "worst")
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
        return MEMORY_MB
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
    similarities: Rows, relevance: Relevance, **options: Unpack[RankOptions]
) -> Iterator[Ranks]:
    """Ranks of the relevant items from whole rows of any similarities."""
    queries, gallery = similarities.shape
    first, last = options.get("span") or (0, queries)
    progress, ties = options.get("progress"), options.get("ties", "worst")
    bytes_per_row = gallery * 8 * 3  # the row, its copy, comparisons; in double precision
    budget = (options.get("memory_mb") or MEMORY_MB) * 2**20
    block = max(1, min(queries, budget // bytes_per_row))
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
