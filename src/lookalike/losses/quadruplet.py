"""The quadruplet loss."""

from typing import Unpack

import torch
from torch import Tensor

from lookalike.geometry import Relations, at_places, listed_pairs, step
from lookalike.losses.base import LossOptions, PairLoss
from lookalike.losses.nca import squared_l2
from lookalike.losses.triplet import hinge
from lookalike.miners.mined import Mined, restrict
from lookalike.registry import LOSSES
from lookalike.triplets import block_rows, count_triplets

__all__ = ["QuadrupletLoss"]


@LOSSES.register("quadruplet", paper="Chen et al., CVPR 2017")
class QuadrupletLoss(PairLoss):
    """A triplet loss, plus: positives nearer than any negative pair of two other classes.

    ``[d_ap^2 - d_an^2 + margin_alpha_1]+`` over triplets and ``[d_ap^2 - d_kl^2 +
    margin_alpha_2]+`` over positive pairs (a, p) and pairs (k, l) of three different classes, each
    the mean over its terms above zero. The second part takes (positive pairs) x N^2 comparisons,
    in blocks. Where the candidates are not the anchors, only l is kept from the class of a.
    """

    needs_labels = True
    default_distance = squared_l2

    def __init__(
        self,
        margin_alpha_1: float = 0.2,
        margin_alpha_2: float = 0.2,
        **options: Unpack[LossOptions],
    ) -> None:
        super().__init__(**options)
        self.margin_alpha_1 = margin_alpha_1
        self.margin_alpha_2 = margin_alpha_2

    def compute_mined(self, relations: Relations, found: Mined) -> Tensor:
        """The loss of the pairs found."""
        return self.compute(restrict(relations, found))

    def compute(self, relations: Relations) -> Tensor:
        """The loss of these relations."""
        similarity = relations.similarity
        with torch.no_grad():
            known = similarity.detach()
            triplets = count_triplets(
                relations.positives, relations.negatives, hinge=(known, self.margin_alpha_1)
            )
            quadruplets = self._count_quadruplets(relations)
        first = hinge(similarity, self.margin_alpha_1, triplets)
        return first + hinge(similarity, self.margin_alpha_2, quadruplets)

    def _count_quadruplets(self, relations: Relations) -> tuple[Tensor, Tensor]:
        """In how many violated quadruplets each pair is the positive one, or the negative one."""
        similarity = relations.similarity.detach()
        rows, places, weight = listed_pairs(relations.positives)
        negatives = relations.negatives.reshape(1, -1)
        as_positive, as_negative = torch.zeros_like(similarity), torch.zeros_like(negatives)
        size = block_rows(similarity.numel())
        for at in range(0, rows.numel(), size):
            row, place = rows[at : at + size], places[at : at + size]
            near = at_places(similarity, place) - self.margin_alpha_2
            counted = step(similarity.reshape(1, -1) - near.unsqueeze(1)).mul_(negatives)
            other = 1 - relations.same[row]
            pairs = other.unsqueeze(1).expand(-1, similarity.shape[0], -1)
            if relations.within:
                pairs = pairs * other.unsqueeze(2)
            counted.mul_(pairs.reshape(counted.shape)).mul_(weight[at : at + size].unsqueeze(1))
            as_positive.view(-1).index_copy_(0, place, counted.sum(1))
            as_negative += counted.sum(0, keepdim=True)
        return as_positive, as_negative.view(similarity.shape)
