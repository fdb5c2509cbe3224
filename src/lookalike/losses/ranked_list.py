"""The ranked-list loss."""

import torch
from torch import Tensor

from lookalike.distances import LpDistance
from lookalike.errors import BadInput
from lookalike.losses.base import PairLoss, Terms
from lookalike.miners.mined import distinct_pairs
from lookalike.registry import LOSSES
from lookalike.relations import Relations

__all__ = ["RankedListLoss"]


@LOSSES.register(
    "ranked-list", paper="Wang et al., CVPR 2019", url="https://arxiv.org/abs/1903.03238"
)
class RankedListLoss(PairLoss):
    """Positives inside a sphere of radius ``alpha - margin``, negatives outside radius ``alpha``.

    Per anchor ``(1 - imbalance) sum_P w (d - (alpha - margin)) / sum_P w + imbalance sum_N w
    (alpha - d) / sum_N w`` over the pairs on the wrong side, weighted by ``e^(Tp (d - alpha +
    margin))`` and ``e^(Tn (alpha - d))``; mean over anchors. ``alpha`` is ``1 + margin/2``
    if not given.

    Args:
        margin: Between the two radii.
        Tn: How much more hard negatives weigh; 0: all alike.
        imbalance: The share of the negatives' part, from 0 to 1.
        alpha: The radius that negatives are kept out of.
        Tp: How much more hard positives weigh; 0: all alike.
    """

    from_miner = distinct_pairs
    needs = "a distance (l2)"
    default_distance = LpDistance

    margin: float = 0.4
    Tn: float = 10
    imbalance: float = 0.5
    alpha: float | None = None
    Tp: float = 0

    def __post_init__(self) -> None:
        if not 0 <= self.imbalance <= 1:
            raise BadInput(f"imbalance is {self.imbalance}; it must be from 0 to 1")
        self.alpha = 1 + self.margin / 2 if self.alpha is None else self.alpha

    def terms(self, relations: Relations) -> Terms:
        """One value per anchor."""
        assert self.alpha is not None
        pull, push = ranked_list(relations, self.alpha, self.margin, self.Tp, self.Tn)
        return Terms((1 - self.imbalance) * pull + self.imbalance * push)


def ranked_list(
    r: Relations, alpha: float, margin: float, sharp_p: float, sharp_n: float
) -> tuple[Tensor, Tensor]:
    """The weighted means of ``[d - (alpha - margin)]+`` and ``[alpha - d]+`` of each anchor."""
    distance = -r.similarity
    pull = weighted_excess(distance - (alpha - margin), r.positives, sharp_p)
    return pull, weighted_excess(alpha - distance, r.negatives, sharp_n)


def weighted_excess(excess: Tensor, weights: Tensor, sharpness: float) -> Tensor:
    """``sum w x / sum w`` over the x above zero, ``w = e^(sharpness x)``, of each anchor."""
    wrong = (excess > 0) * weights
    share = torch.exp(sharpness * excess.relu()) * wrong
    # as in public code: a little of every candidate in the divisor keeps it above zero
    return (share * excess).sum(1) / (share + 1e-5).sum(1)
