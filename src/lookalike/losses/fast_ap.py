"""FastAP: average precision by soft histograms."""

from typing import Unpack

from torch import Tensor

from lookalike.errors import BadInput
from lookalike.geometry import Relations, listed_pairs
from lookalike.losses.base import AnchorLoss, LossOptions
from lookalike.losses.nca import squared_l2
from lookalike.losses.soft_histogram import soft_histogram, soft_histogram_of
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
        position = relations.similarity * (-self.num_bins / 2**self.distance.power)
        positives = relations.positives
        number = positives.sum(1)
        relevant = soft_histogram_of(position, listed_pairs(positives), self.num_bins)
        everything = soft_histogram(position, relations.valid, self.num_bins).cumsum(1)
        precision = relevant * relevant.cumsum(1) / everything.clamp_min(1e-30)
        some = number.sign()
        return (1 - precision.sum(1) / number.clamp_min(1e-30)) * some, some
