"""The ranks of the relevant items: all that the rank metrics need.

The rank of a relevant item is 1 + the number of gallery items that are more similar to the
query. So ranks come from counting, block by block of similarities; nothing is sorted, and no list
of neighbours is kept.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from lookalike.evaluation.relevance import Ints, RaggedArray

Ties = Literal["worst", "average", "best"]


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
