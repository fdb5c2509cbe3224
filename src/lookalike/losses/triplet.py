"""The triplet loss, over all triplets of a batch or those a miner found."""

from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import softplus

from lookalike.distances import LpDistance
from lookalike.errors import BadInput
from lookalike.losses.base import PairLoss, Terms, of_listed_triplets
from lookalike.losses.direction import direction_cosine
from lookalike.miners.sampled import RandomMiner
from lookalike.reducers import AvgNonZeroReducer, MeanReducer
from lookalike.registry import LOSSES
from lookalike.relations import Relations

__all__ = ["TripletMarginLoss"]


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

    reads = "triplets"
    default_distance = LpDistance
    default_reducer = AvgNonZeroReducer

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
        """One value per triplet: ``[s_an - s_ap + margin]+``."""
        listed = relations.listed_triplets()
        ap, an = listed.ap, listed.an
        nearer = an
        if self.swap or self.direction:
            pn = relations.of_positives_and_negatives(self.between_candidates(relations))
            nearer = torch.maximum(an, pn) if self.swap else an
        violation = nearer - ap + self.margin
        if self.direction:
            squared = self.distance.squared_euclidean
            cosine = direction_cosine(squared(ap), squared(an), squared(pn))
            violation = violation - self.direction * cosine
        values = softplus(violation) if self.smooth_loss else violation.relu()
        return of_listed_triplets(relations, values, listed)

    def narrow(
        self, relations: Relations, mined: Relations | None
    ) -> tuple[Relations, Tensor | None]:
        """Those that a miner chose; random ones, or all."""
        return super().narrow(
            relations, random_triplets(relations, mined, self.triplets_per_anchor)
        )


def check_number(triplets_per_anchor: int | Literal["all"]) -> None:
    """Refuse a number of random triplets below 1."""
    if triplets_per_anchor != "all" and triplets_per_anchor < 1:
        raise BadInput(f"triplets_per_anchor is {triplets_per_anchor}; it must be at least 1")


def random_triplets(
    relations: Relations, mined: Relations | None, per_anchor: int | Literal["all"]
) -> Relations | None:
    """What a miner chose, or of all its pairs so many random triplets for each anchor."""
    if per_anchor == "all" or (mined is not None and mined.triplets is not None):
        return mined
    with torch.no_grad():
        return RandomMiner(per_anchor).mine(relations if mined is None else mined)
