"""SmoothAP: average precision with a sigmoid for each comparison."""

from typing import Unpack

import torch
from torch import Tensor

from lookalike.geometry import Relations, at_places, attach, listed_pairs
from lookalike.losses.base import AnchorLoss, LossOptions
from lookalike.miners.mined import Mined
from lookalike.registry import LOSSES
from lookalike.triplets import block_rows

__all__ = ["SmoothAPLoss", "smooth_ap"]


def smooth_ap(relations: Relations, temperature: float, weights: Tensor) -> Tensor:
    """The mean over anchors of ``weights * (1 - AP)``, value and gradient in one pass."""
    similarity = relations.similarity.detach()
    positives, valid = relations.positives, relations.valid
    pairs = listed_pairs(positives)
    rows, places, weight = pairs
    columns = pairs.columns(positives)
    # each positive's part of the mean
    share = weight * (weights / positives.sum(1).clamp_min(1e-30) / positives.shape[0])[rows]
    gradient = torch.zeros_like(similarity)
    precision = similarity.new_zeros(())
    size = block_rows(similarity.shape[1])
    for at in range(0, rows.numel(), size):
        row, column = rows[at : at + size], columns[at : at + size]
        part = share[at : at + size].unsqueeze(1)
        place = column.unsqueeze(1)
        near = at_places(similarity, places[at : at + size]).unsqueeze(1)
        above = torch.sigmoid_(similarity[row].sub_(near).div_(temperature))
        above.scatter_(1, place, 0)
        all_of_them, of_class = valid[row], positives[row]
        rank = 1 + (above * all_of_them).sum(1, keepdim=True)
        rank_in_class = 1 + (above * of_class).sum(1, keepdim=True)
        ratio = rank_in_class / rank
        precision = precision + (part * ratio).sum()
        # d ratio / d above, times d above / d similarity
        slope = of_class.sub_(all_of_them * ratio).mul_(part / rank / temperature)
        slope.mul_(above * (1 - above)).neg_()
        gradient.index_add_(0, row, slope)
        gradient.view(-1).index_add_(0, places[at : at + size], -slope.sum(1))
    number = positives.sum(1).sign()
    value = (weights * number).sum() / positives.shape[0] - precision
    return attach(relations.similarity, value, gradient)


@LOSSES.register("smooth-ap", paper="Brown et al., ECCV 2020")
class SmoothAPLoss(AnchorLoss):
    """One minus average precision, ranks counted by sigmoids.

    ``rank(j) = 1 + sum_(k != j) sigmoid((s_k - s_j) / temperature)``; the precision at a positive
    is its rank among the positives over its rank among all. An image is a positive of its own, as
    in the paper's code. Classes of any size and order (PML asks for equal classes, and is right
    only when images a class equal the number of classes). Mean over anchors.
    """

    self_pairs = True

    def __init__(self, temperature: float = 0.01, **options: Unpack[LossOptions]) -> None:
        super().__init__(**options)
        self.temperature = temperature

    def compute(self, relations: Relations) -> Tensor:
        """The mean over the anchors."""
        return smooth_ap(
            relations, self.temperature, relations.similarity.new_ones(len(relations.same))
        )

    def compute_mined(self, relations: Relations, found: Mined) -> Tensor:
        """The mean over the anchors, each times its weight."""
        weights = found.sample_weights(
            relations.similarity.dtype, anchors_only=not relations.within
        )
        return smooth_ap(relations, self.temperature, weights)
