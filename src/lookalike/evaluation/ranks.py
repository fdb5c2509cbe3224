"""The ranks of the relevant items: all that the rank metrics need.

The rank of a relevant item is 1 + the number of gallery items that are more similar to the
query. So ranks come from counting, block by block of similarities, and neither a sort nor a
list of neighbours of the whole gallery is kept.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from lookalike.evaluation.relevance import Ints, Lists, Relevance

__all__ = ["Counts", "Progress", "Ranks", "Ties", "ranks_of_relevant"]

Ties = Literal["worst", "average", "best"]
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Counts:
    """For each relevant item, by query and then from most to least similar: the number of
    gallery items that are not relevant and strictly more (``above``) or equally (``equal``)
    similar."""

    above: Ints
    equal: Ints


@dataclass(frozen=True)
class Ranks:
    """The ranks r_1 <= r_2 <= ... <= r_R of the relevant items of each query of a block."""

    start: int
    offsets: Ints
    values: NDArray[np.float64]

    @staticmethod
    def of(start: int, relevant: Lists, counts: Counts, ties: Ties) -> "Ranks":
        """Ranks from counts; among equally similar items the relevant come last ("worst"),
        first ("best"), or in the middle of the two ("average")."""
        place = np.arange(len(relevant.items)) - np.repeat(relevant.offsets[:-1], relevant.sizes)
        share = {"worst": 1.0, "average": 0.5, "best": 0.0}[ties]
        return Ranks(start, relevant.offsets, 1.0 + place + counts.above + share * counts.equal)

    @property
    def relevant(self) -> Ints:
        """R, the number of relevant items of each query."""
        return np.diff(self.offsets)

    @property
    def place(self) -> NDArray[np.float64]:
        """j of each r_j, from 1."""
        first = np.repeat(self.offsets[:-1], self.relevant)
        return 1.0 + np.arange(len(self.values)) - first

    def spread(self, per_query: NDArray[np.generic]) -> NDArray[np.generic]:
        """A value of each query repeated for each of its relevant items."""
        return np.repeat(per_query, self.relevant)

    def total(self, per_item: NDArray[np.generic]) -> NDArray[np.float64]:
        """The sum over the relevant items of each query."""
        owners = np.repeat(np.arange(len(self.relevant)), self.relevant)
        return np.bincount(owners, per_item, minlength=len(self.relevant))

    def first(self) -> NDArray[np.float64]:
        """r_1 of each query; infinite where nothing is relevant."""
        best = np.full(len(self.relevant), np.inf)
        has = self.relevant > 0
        best[has] = self.values[self.offsets[:-1][has]]
        return best


def ranks_of_relevant(
    queries: Tensor,
    gallery: Tensor | None,
    relevance: Relevance,
    *,
    distance: Literal["cosine", "l2"] = "cosine",
    ties: Ties = "worst",
    memory_mb: int = 512,
    progress: Progress | None = None,
) -> Iterator[Ranks]:
    """Ranks of the relevant items, in blocks of queries, within the memory budget."""
    from lookalike.evaluation.dense import DenseCounter

    counter = DenseCounter(queries, gallery, distance, memory_mb)
    for start in range(0, len(queries), counter.rows):
        stop = min(start + counter.rows, len(queries))
        relevant, skipped = relevance.lists(start, stop)
        yield Ranks.of(start, relevant, counter.count(start, relevant, skipped), ties)
        if progress:
            progress(stop, len(queries))
