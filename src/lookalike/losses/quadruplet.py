"""The quadruplet loss."""

import torch
from torch import Tensor
from torch.nn.functional import pad

from lookalike.distances import squared_l2
from lookalike.errors import BadInput
from lookalike.losses.base import PairLoss
from lookalike.losses.triplet import triplet_margin
from lookalike.miners.mined import labelled_pairs
from lookalike.ops.blocks import gather_pairs
from lookalike.ops.sums import FAR
from lookalike.reducers import AvgNonZeroReducer
from lookalike.reducers.base import Terms, triplet_terms
from lookalike.registry import LOSSES
from lookalike.relations import Relations

__all__ = ["QuadrupletLoss"]


def other_classes_margin(
    r: Relations, margin: float, rows: Tensor, columns: Tensor
) -> tuple[Tensor, Tensor]:
    """``sum_kl [s_kl - s_ap + margin]+`` over the pairs k, l of other classes than a, per positive.

    ``rows`` and ``columns`` are the classes of anchors and candidates. The sum is over the
    candidates l of other classes, less that over the anchors k of the class of a. Also how many
    terms are above zero.
    """
    bound = r.ap.squeeze(1) - margin
    own = rows.index_select(0, r.listed_pairs[0])
    pushed = r.similarity.where(r.negatives > 0, FAR)
    total, number = hinge_sums(pushed.T, bound, columns.unsqueeze(1) != own)
    if r.self_comparison:
        same_class = hinge_sums(pushed, bound, rows.unsqueeze(1) == own)
        total, number = total - same_class[0], number - same_class[1]
    return total.relu(), number


def hinge_sums(values: Tensor, bounds: Tensor, chosen: Tensor) -> tuple[Tensor, Tensor]:
    """``sum [v - bound]+`` over the chosen rows of values, and how many are above zero.

    The values of a row above a bound are the first of the row in descending order.

    Args:
        values: [rows, columns].
        bounds: [P].
        chosen: [rows, P] which rows count for each bound.

    Returns:
        [P] sums, and [P] numbers.

    >>> hinge_sums(torch.tensor([[1.0, 0.2]]), torch.tensor([0.5]), torch.tensor([[True]]))
    (tensor([0.5000]), tensor([1.]))
    """
    values = values.contiguous().sort(dim=1, descending=True).values
    above = _number_above(values.detach(), bounds.detach())
    row = torch.arange(len(values), dtype=torch.int32, device=values.device).unsqueeze(1)
    total = (gather_pairs(pad(values.cumsum(1), (1, 0)), row, above) * chosen).sum(0)
    number = (above * chosen).sum(0, dtype=torch.int32).to(values.dtype)
    return total - number * bounds, number


def _number_above(values: Tensor, bounds: Tensor) -> Tensor:
    """[rows, P] how many values of a row, in descending order, are above each bound."""
    limits = -bounds.expand(len(values), -1).contiguous()
    return torch.searchsorted(-values, limits, out_int32=True)


@LOSSES.register(
    "quadruplet", paper="Chen et al., CVPR 2017", url="https://arxiv.org/abs/1704.01719"
)
class QuadrupletLoss(PairLoss):
    """A triplet loss, plus: positives nearer than any negative pair of two other classes.

    ``[d_ap^2 - d_an^2 + margin_alpha_1]+`` over triplets and ``[d_ap^2 - d_kl^2 +
    margin_alpha_2]+`` over positive pairs (a, p) and pairs (k, l) of three different classes, each
    the mean over its terms above zero. Where the candidates are not the anchors, only l is kept
    from the class of a. A reducer reads the mean of the terms above zero of each positive pair
    (a, p) instead of all its quadruplets.

    Args:
        margin_alpha_1: The margin of triplets.
        margin_alpha_2: The margin of quadruplets.
    """

    default_distance = squared_l2
    default_reducer = AvgNonZeroReducer
    from_miner = labelled_pairs

    margin_alpha_1: float = 0.2
    margin_alpha_2: float = 0.2

    def terms(self, relations: Relations) -> tuple[Terms, Terms]:
        """One value per triplet, and one per positive pair: the mean of its quadruplets."""
        r = relations
        triplets = triplet_margin(r, self.margin_alpha_1).relu()
        total, number = other_classes_margin(r, self.margin_alpha_2, *self._classes(r))
        return triplet_terms(r, triplets), Terms(
            total / number.clamp_min(1),
            r.at_pairs(r.positives) * number,
            name="quadruplet_loss",
            images=r.listed_pairs,
        )

    def _classes(self, r: Relations) -> tuple[Tensor, Tensor]:
        """The classes of anchors and candidates."""
        rows, columns = r.labels, r.labels if r.self_comparison else r.ref_labels
        if rows is None or columns is None or rows.ndim != 1 or self.label_comparison is not None:
            raise BadInput("QuadrupletLoss needs one class index per embedding")
        return rows, columns
