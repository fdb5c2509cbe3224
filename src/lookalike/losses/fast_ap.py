"""FastAP: average precision by soft histograms."""

from typing import Unpack

import torch
from torch import Tensor

from lookalike.errors import BadInput
from lookalike.geometry import Relations, at_places, attach, in_row_blocks, listed_pairs
from lookalike.losses.base import AnchorLoss, LossOptions
from lookalike.losses.nca import squared_l2
from lookalike.losses.soft_histogram import histogram_of, shares
from lookalike.registry import LOSSES

__all__ = ["FastAPLoss"]


@LOSSES.register("fast-ap", paper="Cakir et al., CVPR 2019")
class FastAPLoss(AnchorLoss):
    """One minus average precision, the ranking cut into bins of distance.

    ``1 - 1/|P| sum_k h^+_k H^+_k / H_k``: h and H are soft histograms of squared distances and
    their running sums, over ``num_bins`` bins on [0, 4]. Mean over anchors that have a positive.
    """

    default_distance = squared_l2

    def __init__(self, num_bins: int = 10, **options: Unpack[LossOptions]) -> None:
        super().__init__(**options)
        if not self.distance.ordered_by_cosine or self.distance.is_inverted:
            raise BadInput("FastAP needs distances of unit vectors (l2 or l2-squared)")
        self.num_bins = int(num_bins)

    def per_anchor(self, relations: Relations) -> tuple[Tensor, Tensor]:
        """One minus the average precision of each anchor's candidates."""
        with torch.no_grad():
            values, slope = in_row_blocks(relations, self._terms)
            losses, some = values.unbind(1)
        return attach(relations.similarity, losses, slope), some

    def _terms(self, relations: Relations) -> tuple[Tensor, Tensor]:
        """Each anchor's loss and whether it has a positive, side by side; the slopes."""
        bins, scale = self.num_bins, -self.num_bins / 2**self.distance.power
        valid, positives = relations.valid, relations.positives
        pairs = listed_pairs(positives)
        left, share = shares(relations.similarity * scale, bins)
        cell = at_places(left, pairs.places).add_(pairs.rows, alpha=bins)
        edge = cell + pairs.rows  # the rows of a histogram are one longer than those of cells
        right = at_places(share, pairs.places).mul_(pairs.weights)
        relevant = valid.new_zeros(len(valid) * (bins + 1))
        relevant.index_add_(0, edge, pairs.weights - right).index_add_(0, edge + 1, right)
        relevant = relevant.view(-1, bins + 1)
        everything = histogram_of(left, share.mul_(valid), valid, bins).cumsum(1)

        number = positives.sum(1, keepdim=True)
        some = number.sign()
        weight = some / number.clamp_min_(1e-30)
        everything.clamp_min_(1e-30)
        precision = relevant.cumsum(1).div_(everything)
        gain = relevant * precision
        losses = some - gain.sum(1, keepdim=True) * weight

        of_relevant = _from_here_on(relevant.div_(everything)).add_(precision)
        of_all = _from_here_on(gain.div_(everything))
        slope = of_all.diff(dim=1).gather(1, left).mul_(valid)
        pull = of_relevant.diff(dim=1).view(-1).index_select(0, cell).mul_(pairs.weights)
        slope.view(-1).index_add_(0, pairs.places, pull, alpha=-1)
        return torch.cat((losses, some), 1), slope.mul_(weight * scale)


def _from_here_on(values: Tensor) -> Tensor:
    """The sum of each value and all to its right."""
    return values.sum(1, keepdim=True).add(values).sub_(values.cumsum(1))
