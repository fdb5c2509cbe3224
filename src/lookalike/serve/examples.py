"""What a search starts from: pictures, labels and marks, combined to one vector."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lookalike.inference.encoder import Vectors
from lookalike.serve.collection import View
from lookalike.serve.limits import Refusal

POSITIVE, NEGATIVE = 0.75, 0.15
"""The weights of marks, beta and gamma."""
SHORTEST = 1e-6
CANCELLED = "These examples cancel each other out: nothing is left to search with."
Precise = NDArray[np.float64]


@dataclass(frozen=True)
class Examples:
    """What a search starts from.

    Args:
        vectors: Of uploaded pictures, or given as numbers.
        items: Ids of indexed pictures.
        positive_ids: Ids that were marked as right.
        negative_ids: Ids that were marked as wrong.
        plus: Labels that are added.
        minus: Labels that are subtracted.
        weight: How much a label counts, against 1 of the pictures.
    """

    vectors: Sequence[ArrayLike] = field(default_factory=list)
    items: list[int] = field(default_factory=list)
    positive_ids: list[int] = field(default_factory=list)
    negative_ids: list[int] = field(default_factory=list)
    plus: list[str] = field(default_factory=list)
    minus: list[str] = field(default_factory=list)
    weight: float = 1.0

    @property
    def excluded(self) -> set[int]:
        """What the answer leaves out: the query itself, and what is wrong."""
        return {*self.items, *self.negative_ids}

    def combined(self, view: View) -> Vectors:
        """The unit vector to search with.

        The query is the mean of the unit vectors of all pictures, scaled to unit length; of each
        label the mean is added or subtracted::

            q = unit(mean(x)),  q = unit(q + weight (sum of plus - sum of minus))

        Marks move it as Rocchio's relevance feedback does, towards the mean of what is right
        and away from the mean of what is wrong::

            q = unit(q + 0.75 mean(positive) - 0.15 mean(negative))

        (Rocchio, "Relevance feedback in information retrieval", 1971; the weights are those of
        Manning, Raghavan and Schuetze, "Introduction to Information Retrieval", 2008, 9.1.1.)
        """
        view.check(*self.items, *self.positive_ids, *self.negative_ids)
        if not (self.vectors or self.items or self.plus or self.positive_ids):
            raise Refusal(422, "Give a picture, an id, a vector or a label to search with.")
        query: Precise = np.zeros(view.index.dim)
        given = [_unit(self._checked(view, vector)) for vector in self.vectors]
        given += map(_unit, view.index.vectors_of(self.items)) if self.items else []
        if given:
            query = self._left(np.mean(given, 0))
        if self.plus or self.minus:
            added = sum((view.label_mean(label) for label in self.plus), np.zeros(len(query)))
            taken = sum((view.label_mean(label) for label in self.minus), np.zeros(len(query)))
            query = self._left(query + self.weight * (added - taken))
        if self.positive_ids or self.negative_ids:
            for ids, weight in ((self.positive_ids, POSITIVE), (self.negative_ids, -NEGATIVE)):
                if ids:
                    marked = view.index.vectors_of(ids)
                    query = query + weight * marked.mean(0, dtype=np.float64)
            query = self._left(query)
        return query.astype(np.float32)

    @staticmethod
    def _left(sum_: Precise) -> Precise:
        """A sum of unit vectors scaled to unit length, unless rounding is all that is left."""
        if np.linalg.norm(sum_) < SHORTEST:
            raise Refusal(422, CANCELLED)
        return _unit(sum_)

    @staticmethod
    def _checked(view: View, vector: ArrayLike) -> Precise:
        found = np.asarray(vector, np.float64)
        if len(found) != view.index.dim:
            raise Refusal(422, f"A vector needs {view.index.dim} numbers, not {len(found)}.")
        return found


def _unit(vector: NDArray[np.floating]) -> Precise:
    """A vector scaled to unit length; nothing is refused."""
    largest = float(np.abs(vector).max(initial=0.0))
    if not np.isfinite(largest) or largest == 0:
        raise Refusal(422, CANCELLED)
    scaled = np.asarray(vector, np.float64) / largest
    found: Precise = scaled / np.linalg.norm(scaled)
    return found
