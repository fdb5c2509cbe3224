"""FastAP: average precision by soft histograms."""

from lookalike.losses.base import AnchorLoss, Terms
from lookalike.losses.kernels.fast_ap import fast_ap_kernel
from lookalike.losses.nca import squared_l2
from lookalike.ops.histogram import soft_histogram
from lookalike.registry import LOSSES
from lookalike.relations import Relations

__all__ = ["FastAPLoss"]


@LOSSES.register("fast-ap", paper="Cakir et al., CVPR 2019")
class FastAPLoss(AnchorLoss):
    """One minus average precision, the ranking cut into bins of distance.

    ``1 - 1/|P| sum_k h^+_k H^+_k / H_k``: h and H are soft histograms of squared distances and
    their running sums, over ``num_bins`` bins on [0, 4]. Mean over anchors that have a positive.

    Args:
        num_bins: Bins of the histogram of distances.
    """

    default_distance = squared_l2
    fused_kernel = fast_ap_kernel
    needs = "distances of unit vectors (l2 or l2-squared)"

    num_bins: int = 10

    def __post_init__(self) -> None:
        super().__post_init__()
        self.num_bins = int(self.num_bins)

    def terms(self, relations: Relations) -> Terms:
        """The formula, one value per anchor."""
        r = relations
        position = -r.similarity * (self.num_bins / 2**self.distance.power)
        relevant = soft_histogram(position, r.positives, self.num_bins)
        everything = soft_histogram(position, r.valid, self.num_bins)
        precision = relevant.cumsum(1) / everything.cumsum(1).clamp_min(1e-30)
        number = r.positives.sum(1)
        some = number.sign()
        values = some - (relevant * precision).sum(1) / number.clamp_min(1e-30)
        return Terms(values, some)
