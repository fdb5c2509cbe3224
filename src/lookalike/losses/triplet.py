"""The triplet loss, over all triplets of a batch or those a miner found."""

from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import softplus

from lookalike.distances import LpDistance
from lookalike.errors import BadInput
from lookalike.losses.base import PairLoss
from lookalike.losses.direction import direction_cosine
from lookalike.miners.mined import chosen_triplets
from lookalike.miners.sampled import RandomMiner
from lookalike.reducers import AvgNonZeroReducer, MeanReducer
from lookalike.reducers.base import Terms, triplet_terms
from lookalike.registry import LOSSES
from lookalike.relations import Relations

__all__ = ["TripletMarginLoss"]


def triplet_margin(r: Relations, margin: float | Tensor) -> Tensor:
    """``s_an - s_ap + margin``, one value per triplet; its positive part is the loss."""
    return r.an - r.ap + margin


@LOSSES.register(
    "triplet",
    paper="Weinberger and Saul, JMLR 2009",
    url="https://jmlr.org/papers/v10/weinberger09a.html",
)
class TripletMarginLoss(PairLoss):
    """Wants each positive nearer than each negative by a margin.

    ``[d_ap - d_an + margin]+``, mean over the triplets above zero; all triplets, as positive pairs
    x candidates. ``smooth_loss``: ``log(1 + e^(.))``. ``swap``: the nearer of ``d_an`` and
    ``d_pn``. ``triplets_per_anchor``: so many random triplets instead of all. ``direction``:
    direction regularisation, ``[d_ap - d_an + margin - direction * cos(x_p - x_a, x_n - x_a)]+``,
    then the mean over all triplets (Mohan et al., CVPR 2020).

    Args:
        margin: By how much a positive must be nearer than a negative.
        swap: Whether the nearer of ``d_an`` and ``d_pn`` counts.
        smooth_loss: Whether ``log(1 + e^x)`` replaces the hinge.
        triplets_per_anchor: Random triplets per anchor, or ``all``.
        direction: The weight of direction regularisation.
    """

    default_distance = LpDistance
    default_reducer = AvgNonZeroReducer
    from_miner = chosen_triplets

    margin: float = 0.05
    swap: bool = False
    smooth_loss: bool = False
    triplets_per_anchor: int | Literal["all"] = "all"
    direction: float = 0

    def __post_init__(self) -> None:
        check_number(self.triplets_per_anchor)
        if self.direction and self.reducer == AvgNonZeroReducer():
            self.reducer = MeanReducer()

    def terms(self, relations: Relations) -> Terms:
        """One value per triplet."""
        r = random_triplets(relations, self.triplets_per_anchor)
        violation = triplet_margin(r, self.margin)
        if self.swap or self.direction:
            pn = r.pn(self.between_candidates(r))
            if self.swap:
                violation = torch.maximum(violation, pn - r.ap + self.margin)
            if self.direction:
                squared = self.distance.squared_euclidean
                cosine = direction_cosine(squared(r.ap), squared(r.an), squared(pn))
                violation = violation - self.direction * cosine
        return triplet_terms(r, softplus(violation) if self.smooth_loss else violation.relu())


def check_number(triplets_per_anchor: int | Literal["all"]) -> None:
    """Refuse a number of random triplets below 1."""
    if triplets_per_anchor != "all" and triplets_per_anchor < 1:
        raise BadInput(f"triplets_per_anchor is {triplets_per_anchor}; it must be at least 1")


def random_triplets(r: Relations, per_anchor: int | Literal["all"]) -> Relations:
    """So many random triplets of each anchor; all where a miner chose triplets, or for ``all``."""
    if per_anchor == "all" or r.triplets is not None:
        return r
    return RandomMiner(per_anchor).mine(r)
