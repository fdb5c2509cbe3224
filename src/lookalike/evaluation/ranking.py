"""From embeddings to the ranks of the relevant items, by the way that suits the machine."""

from collections.abc import Callable, Iterator

import numpy as np
import torch
from torch import Tensor

from lookalike.evaluation.dense import DenseCounter, Rows, Similarities
from lookalike.evaluation.inputs import Distance
from lookalike.evaluation.ranks import Ranks, Ties
from lookalike.evaluation.relevance import Relevance

__all__ = ["Progress", "rank_embeddings", "rank_rows"]

Progress = Callable[[int, int], None]

INDISTINCT = 0.25
"""Above this share of near-equal similarities, single precision saves no time any more."""


def rank_embeddings(
    queries: Tensor,
    gallery: Tensor | None,
    relevance: Relevance,
    *,
    distance: Distance = "cosine",
    ties: Ties = "worst",
    memory_mb: int = 512,
    progress: Progress | None = None,
    span: tuple[int, int] | None = None,
) -> Iterator[Ranks]:
    """Ranks of the relevant items in blocks of queries, within the memory budget.

    ``gallery`` None: the queries themselves. ``span``: only these queries. ``progress`` is told
    how many of the queries are done, and of how many.
    """
    if span is not None and span[0] == span[1]:
        return
    if queries.device.type != "cpu":
        rows = Similarities(queries, gallery, distance)
        yield from rank_rows(rows, relevance, ties, memory_mb, progress, span)
        return

    from lookalike.evaluation.counting import Counter  # numba: only where it is used

    counter = Counter(queries, gallery, distance, memory_mb)
    if counter.indistinct(relevance) > INDISTINCT:
        rows = Similarities(queries, gallery, distance, torch.float64)
        yield from rank_rows(rows, relevance, ties, memory_mb, progress, span)
        return
    first, last = span or (0, len(queries))
    for start, stop in _blocks(relevance, first, last, counter.pairs):
        relevant, skipped = relevance.lists(start, stop)
        tell = _teller(progress, start - first, stop - start, last - first)
        counts = counter.count(start, relevant, skipped, relevance.symmetric, tell)
        yield Ranks.of(start, relevant, counts, ties)


def rank_rows(
    similarities: Rows,
    relevance: Relevance,
    ties: Ties = "worst",
    memory_mb: int = 512,
    progress: Progress | None = None,
    span: tuple[int, int] | None = None,
) -> Iterator[Ranks]:
    """Ranks of the relevant items from whole rows of any similarities."""
    counter = DenseCounter(similarities, memory_mb)
    first, last = span or (0, similarities.shape[0])
    for start in range(first, last, counter.block):
        stop = min(start + counter.block, last)
        relevant, skipped = relevance.lists(start, stop)
        yield Ranks.of(start, relevant, counter.count(start, relevant, skipped), ties)
        if progress:
            progress(stop - first, last - first)


def _blocks(relevance: Relevance, first: int, last: int, pairs: int) -> Iterator[tuple[int, int]]:
    """Ranges of queries of at most ``pairs`` relevant pairs (but at least one query)."""
    total = np.cumsum(relevance.count()[first:last])
    start = 0
    while start < last - first:
        before = total[start - 1] if start else 0
        stop = max(start + 1, int(np.searchsorted(total, before + pairs, side="right")))
        yield first + start, first + stop
        start = stop


def _teller(
    progress: Progress | None, done: int, number: int, total: int
) -> Callable[[float], None] | None:
    if progress is None:
        return None
    return lambda share: progress(done + int(share * number), total)
