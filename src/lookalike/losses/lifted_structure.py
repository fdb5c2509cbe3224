"""The lifted-structure loss, in its first form and in the generalised one."""

from typing import Unpack

import torch
from torch import Tensor

from lookalike.distances import LpDistance
from lookalike.geometry import (
    Relations,
    at_places,
    attach,
    in_row_blocks,
    listed_pairs,
    log_sum_exp,
    soft_terms,
)
from lookalike.losses.base import LossOptions, PairLoss
from lookalike.registry import LOSSES

__all__ = ["GeneralizedLiftedStructureLoss", "LiftedStructureLoss"]


@LOSSES.register("lifted-structure", paper="Oh Song et al., CVPR 2016")
class LiftedStructureLoss(PairLoss):
    """Each positive pair against all negatives of both its images.

    ``1/2 [d_ij - pos_margin + log(sum_(n in N(i)) e^(neg_margin - d_in)
    + sum_(n in N(j)) e^(neg_margin - d_jn))]+^2``, mean over positive pairs. Where the candidates
    are not the anchors, N(j) are the anchors that j is a negative of.
    """

    additive = True
    by_row = False
    default_distance = LpDistance

    def __init__(
        self, neg_margin: float = 1, pos_margin: float = 0, **options: Unpack[LossOptions]
    ) -> None:
        super().__init__(**options)
        self.neg_margin = neg_margin
        self.pos_margin = pos_margin

    def compute(self, relations: Relations) -> Tensor:
        """The loss of these relations."""
        level = self.distance.level
        similarity, negatives = relations.similarity, relations.negatives
        pairs = listed_pairs(relations.positives)
        shift = level(self.neg_margin)
        of_anchor = log_sum_exp(similarity, negatives, shift=shift)
        if relations.within:
            of_candidate = of_anchor
        else:
            of_candidate = log_sum_exp(similarity.T, negatives.T, shift=shift)
        both = torch.logaddexp(of_anchor[pairs.rows], of_candidate[pairs.columns(similarity)])
        some = both > -1e29  # without any negative PML counts the positive's distance alone
        pull = level(self.pos_margin) - at_places(similarity, pairs.places)
        values = (pull + torch.where(some, both, 0)).relu().square() / 2
        return relations.mean_over_positives(values, pairs)


@LOSSES.register("generalized-lifted-structure", paper="Hermans et al., 2017")
class GeneralizedLiftedStructureLoss(PairLoss):
    """All positives of an anchor against all its negatives.

    ``[log sum_P e^(d - pos_margin) + log sum_N e^(neg_margin - d)]+``, mean over anchors. A sum
    without terms counts as 0 (as PML).
    """

    additive = True
    counts = False
    default_distance = LpDistance

    def __init__(
        self, neg_margin: float = 1, pos_margin: float = 0, **options: Unpack[LossOptions]
    ) -> None:
        super().__init__(**options)
        self.neg_margin = neg_margin
        self.pos_margin = pos_margin

    def compute(self, relations: Relations) -> Tensor:
        """The loss of these relations."""
        level, number = self.distance.level, relations.similarity.shape[0]

        def terms(part: Relations) -> tuple[Tensor, Tensor]:
            positives, negatives = part.positives, part.negatives
            pull, near = soft_terms(
                part.similarity, positives, scale=-1, shift=level(self.pos_margin)
            )
            push, far = soft_terms(part.similarity, negatives, shift=level(self.neg_margin))
            pull.mul_(positives.sum(1, keepdim=True).sign_())
            push.mul_(negatives.sum(1, keepdim=True).sign_())
            total = pull.add_(push).relu_()
            return total, far.sub_(near).mul_(total.sign().div_(number))

        with torch.no_grad():
            totals, slope = in_row_blocks(relations, terms)
            value = totals.mean()
        return attach(relations.similarity, value, slope)
