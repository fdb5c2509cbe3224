"""The quadruplet loss."""

import torch
from torch import Tensor

from lookalike.distances import squared_l2
from lookalike.errors import BadInput
from lookalike.losses.base import PairLoss, Terms, of_listed_triplets
from lookalike.miners.mined import named_pairs
from lookalike.reducers import AvgNonZeroReducer
from lookalike.registry import LOSSES
from lookalike.relations import Relations

__all__ = ["QuadrupletLoss"]


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

    needs_labels = True
    reads = "pairs"
    default_distance = squared_l2
    default_reducer = AvgNonZeroReducer

    margin_alpha_1: float = 0.2
    margin_alpha_2: float = 0.2

    def narrow(
        self, relations: Relations, mined: Relations | None
    ) -> tuple[Relations, Tensor | None]:
        """Only the pairs that the miner chose, as the labels say."""
        if mined is not None:
            positive, negative = (chosen.clamp_max(1) for chosen in named_pairs(mined))
            r = relations
            relations = r.only(r.positives * positive, r.negatives * negative)
        return relations.with_listed_pairs(), None

    def terms(self, relations: Relations) -> tuple[Terms, Terms]:
        """One value per triplet, and one per positive pair: the mean of its quadruplets."""
        r = relations
        listed = r.listed_triplets()
        triplets = (listed.an - listed.ap + self.margin_alpha_1).relu()
        bound = listed.ap.squeeze(1) - self.margin_alpha_2
        total, number = self.hinges_of_other_classes(r, bound)
        weights = r.of_pairs(r.positives) * number
        values = total / number.clamp_min(1)
        return (
            of_listed_triplets(r, triplets, listed),
            Terms(values, weights, name="quadruplet_loss", images=r.listed_pairs),
        )

    def hinges_of_other_classes(self, r: Relations, bound: Tensor) -> tuple[Tensor, Tensor]:
        """``sum [s_kl - bound]+`` over the pairs (k, l) without the class of a, and their number.

        That is the sum over all negative pairs, less those that have k, or l, of the class of a.
        """
        rows, columns = self._classes(r)
        own = rows.index_select(0, r.listed_pairs[0])
        is_pair = r.negatives > 0
        no_class = len(rows) + len(columns)

        def hinges(group: Tensor, groups_of_pairs: Tensor) -> tuple[Tensor, Tensor]:
            groups = torch.where(is_pair, groups_of_pairs, no_class)
            return _hinges(bound, group, r.similarity.reshape(-1), groups.reshape(-1))

        every, of_l = hinges(torch.zeros_like(own), rows.new_zeros(())), hinges(own, columns)
        total, number = every[0] - of_l[0], every[1] - of_l[1]
        if r.self_comparison:
            of_k = hinges(own, rows.unsqueeze(1))
            total, number = total - of_k[0], number - of_k[1]
        return total.relu().to(bound.dtype), number.to(bound.dtype)

    def _classes(self, r: Relations) -> tuple[Tensor, Tensor]:
        """The classes of anchors and candidates as numbers from 0."""
        rows, columns = r.labels, r.labels if r.self_comparison else r.ref_labels
        if rows is None or columns is None or rows.ndim != 1 or self.label_comparison is not None:
            raise BadInput("QuadrupletLoss needs one class index per embedding")
        both = torch.cat([rows, columns])
        numbers = torch.searchsorted(both.sort().values, both)
        return numbers[: len(rows)], numbers[len(rows) :]


def _hinges(
    bounds: Tensor, groups: Tensor, values: Tensor, groups_of_values: Tensor
) -> tuple[Tensor, Tensor]:
    """``sum [v - bound]+`` over the values of the same group, and how many are above zero; doubles.

    Values are sorted by group and size, so that those above a bound are the end of its group.

    >>> one = torch.tensor([0, 0])
    >>> _hinges(torch.tensor([0.5]), one[:1], torch.tensor([1.0, 0.2]), one)
    (tensor([0.5000], dtype=torch.float64), tensor([1.], dtype=torch.float64))
    """
    ends = torch.cat([bounds.detach(), values.detach()]).double()
    width = 2 * (ends.abs().max() + 1)

    def key(numbers: Tensor, group: Tensor) -> Tensor:
        return numbers.detach().double() + width * group

    order = key(values, groups_of_values).argsort()
    keys = key(values, groups_of_values)[order]
    sums = torch.nn.functional.pad(values[order].double().cumsum(0), (1, 0))
    first = torch.searchsorted(keys, key(bounds, groups), right=True)
    last = torch.searchsorted(keys, width * (groups + 0.5), right=True)
    number = (last - first).double()
    return sums[last] - sums[first] - number * bounds, number
