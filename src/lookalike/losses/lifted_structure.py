"""The lifted-structure loss, in its first form and in the generalised one."""

import torch
from torch import Tensor

from lookalike.distances import LpDistance
from lookalike.losses.base import PairLoss, Terms
from lookalike.losses.kernels.soft_sums import generalized_lifted_structure_kernel
from lookalike.ops.pairs import at_places, listed_pairs
from lookalike.ops.soft import log_sum_exp
from lookalike.registry import LOSSES
from lookalike.relations import Relations

__all__ = ["GeneralizedLiftedStructureLoss", "LiftedStructureLoss"]


def lifted_structure(r: Relations, pull_to: float, push_to: float) -> Terms:
    """``1/2 [m - s_ij + log(sum_N(i) e^(s_in - n) + sum_N(j) e^(s_jn - n))]+^2``, per positive."""
    pairs = listed_pairs(r.positives)
    of_anchor = log_sum_exp(r.similarity - push_to, r.negatives)
    of_candidate = of_anchor
    if not r.self_comparison:
        of_candidate = log_sum_exp(r.similarity.T - push_to, r.negatives.T)
    both = torch.logaddexp(of_anchor[pairs.rows], of_candidate[pairs.columns(r.similarity)])
    some = both > -1e29  # without any negative PML counts the positive's distance alone
    pull = pull_to - at_places(r.similarity, pairs.places)
    values = (pull + torch.where(some, both, 0)).relu().square() / 2
    return Terms(values, pairs.weights, r.counts_of(pairs), places=pairs)


def generalized_lifted_structure(r: Relations, pull_to: float, push_to: float) -> Tensor:
    """``[log sum_P e^(pull_to - s) + log sum_N e^(s - push_to)]+``, one value per anchor."""
    pull = log_sum_exp(pull_to - r.similarity, r.positives)
    push = log_sum_exp(r.similarity - push_to, r.negatives)
    # a sum without terms counts as 0 (as PML)
    return (pull * (r.positives > 0).any(1) + push * (r.negatives > 0).any(1)).relu()


class _LiftedLoss(PairLoss):
    additive = True
    default_distance = LpDistance

    neg_margin: float = 1
    pos_margin: float = 0


@LOSSES.register("lifted-structure", paper="Oh Song et al., CVPR 2016")
class LiftedStructureLoss(_LiftedLoss):
    """Each positive pair against all negatives of both its images.

    ``1/2 [d_ij - pos_margin + log(sum_(n in N(i)) e^(neg_margin - d_in)
    + sum_(n in N(j)) e^(neg_margin - d_jn))]+^2``, mean over positive pairs. Where the candidates
    are not the anchors, N(j) are the anchors that j is a negative of.

    Args:
        neg_margin: The margin of negatives.
        pos_margin: The margin of positives.
    """

    by_row = False

    def terms(self, relations: Relations) -> Terms:
        """The formula."""
        level = self.distance.level
        return lifted_structure(relations, level(self.pos_margin), level(self.neg_margin))


@LOSSES.register("generalized-lifted-structure", paper="Hermans et al., 2017")
class GeneralizedLiftedStructureLoss(_LiftedLoss):
    """All positives of an anchor against all its negatives.

    ``[log sum_P e^(d - pos_margin) + log sum_N e^(neg_margin - d)]+``, mean over anchors. A sum
    without terms counts as 0 (as PML).

    Args:
        neg_margin: The margin of negatives.
        pos_margin: The margin of positives.
    """

    counts = False
    fused_kernel = generalized_lifted_structure_kernel

    def terms(self, relations: Relations) -> Terms:
        """The formula."""
        ends = (self.distance.level(end) for end in (self.pos_margin, self.neg_margin))
        return Terms(generalized_lifted_structure(relations, *ends))
