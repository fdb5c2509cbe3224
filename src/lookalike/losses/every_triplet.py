"""The similarities and weights of triplets, listed by a miner or all that the pairs make."""

from typing import NamedTuple

from torch import Tensor

from lookalike.ops.pairs import PairList, at_places, listed_pairs, picked
from lookalike.reducers.terms import Listed
from lookalike.relations import Relations

__all__ = ["EveryTriplet", "every_triplet"]


class EveryTriplet(NamedTuple):
    """Triplets [triplets], or [positive pairs, candidates]."""

    ap: Tensor
    """The similarity of anchor and positive."""
    an: Tensor
    """The similarity of anchor and negative."""
    weights: Tensor
    """How much each triplet counts in a sum."""
    counts: Tensor | None
    """How often each triplet counts in a number; None is its weight."""
    places: PairList | Listed
    """Where they stand."""

    def between(self, candidates: Tensor, similarity: Tensor) -> Tensor:
        """The similarity of positive and negative, from that of candidates to one another."""
        if isinstance(self.places, Listed):
            return picked(candidates, *self.places.others)
        return candidates.index_select(0, self.places.columns(similarity))


def every_triplet(r: Relations) -> EveryTriplet:
    """The triplets that a miner listed, or all that the pairs make."""
    if r.triplets is not None:
        anchor, positive, negative, weights = r.triplets
        ap, an = picked(r.similarity, anchor, positive), picked(r.similarity, anchor, negative)
        listed = Listed(anchor, (positive, negative))
        return EveryTriplet(ap, an, weights.to(ap.dtype), None, listed)
    pairs = listed_pairs(r.positives)
    ap = at_places(r.similarity, pairs.places).unsqueeze(1)
    an = r.similarity.index_select(0, pairs.rows)
    weights = pairs.weights.unsqueeze(1) * r.negatives.index_select(0, pairs.rows)
    counts = r.counts_of(pairs).unsqueeze(1) * r.negative_counts.index_select(0, pairs.rows)
    if r.condition is not None:
        inside = r.condition.inside(pairs)
        weights, counts = weights * inside, counts * inside
    return EveryTriplet(ap, an, weights, counts, pairs)
