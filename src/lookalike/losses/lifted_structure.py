"""The lifted-structure loss, in its first form and in the generalised one."""

import torch
from torch import Tensor

from lookalike.distances import LpDistance
from lookalike.losses.base import PairLoss
from lookalike.miners.mined import distinct_pairs
from lookalike.ops.sums import FAR, log_sum_exp
from lookalike.reducers.base import Terms, listed_terms
from lookalike.registry import LOSSES
from lookalike.relations import Relations

__all__ = ["GeneralizedLiftedStructureLoss", "LiftedStructureLoss"]


def lifted_structure(r: Relations, pull_to: float, push_to: float) -> Tensor:
    """``1/2 [m - s_ij + log(sum_N(i) e^(s_in - n) + sum_N(j) e^(s_jn - n))]+^2``, per positive."""
    of_anchor = log_sum_exp(r.similarity - push_to, r.negatives)
    of_candidate = of_anchor
    if not r.self_comparison:
        of_candidate = log_sum_exp(r.similarity.T - push_to, r.negatives.T)
    anchor, positive = r.listed_pairs
    push = torch.logaddexp(
        of_anchor.index_select(0, anchor), of_candidate.index_select(0, positive)
    )
    push = push.where(push > FAR / 2, 0)  # without any negative the positive's distance alone
    return (pull_to - r.at_pairs(r.similarity) + push).relu().square() / 2


def generalized_lifted_structure(r: Relations, pull_to: float, push_to: float) -> Tensor:
    """``[log sum_P e^(pull_to - s) + log sum_N e^(s - push_to)]+``, one value per anchor."""
    pull = log_sum_exp(pull_to - r.similarity, r.positives)
    push = log_sum_exp(r.similarity - push_to, r.negatives)
    # a sum without terms counts as 0 (as PML)
    return (pull.where(pull > FAR / 2, 0) + push.where(push > FAR / 2, 0)).relu()


@LOSSES.register(
    "lifted-structure", paper="Oh Song et al., CVPR 2016", url="https://arxiv.org/abs/1511.06452"
)
class LiftedStructureLoss(PairLoss):
    """Each positive pair against all negatives of both its images.

    ``1/2 [d_ij - pos_margin + log(sum_(n in N(i)) e^(neg_margin - d_in)
    + sum_(n in N(j)) e^(neg_margin - d_jn))]+^2``, mean over positive pairs. Where the candidates
    are not the anchors, N(j) are the anchors that j is a negative of.

    Args:
        neg_margin: The margin of negatives.
        pos_margin: The margin of positives.
    """

    additive = True
    by_row = False
    default_distance = LpDistance

    neg_margin: float = 1
    pos_margin: float = 0

    def terms(self, relations: Relations) -> Terms:
        """One value per positive pair."""
        to_similarity = self.distance.to_similarity
        ends = to_similarity(self.pos_margin), to_similarity(self.neg_margin)
        return listed_terms(relations, lifted_structure(relations, *ends))


@LOSSES.register(
    "generalized-lifted-structure",
    paper="Hermans et al., 2017",
    url="https://arxiv.org/abs/1703.07737",
)
class GeneralizedLiftedStructureLoss(PairLoss):
    """All positives of an anchor against all its negatives.

    ``[log sum_P e^(d - pos_margin) + log sum_N e^(neg_margin - d)]+``, mean over anchors. A sum
    without terms counts as 0 (as PML).

    Args:
        neg_margin: The margin of negatives.
        pos_margin: The margin of positives.
    """

    additive = True
    from_miner = distinct_pairs
    default_distance = LpDistance

    neg_margin: float = 1
    pos_margin: float = 0

    def terms(self, relations: Relations) -> Terms:
        """One value per anchor."""
        to_similarity = self.distance.to_similarity
        ends = to_similarity(self.pos_margin), to_similarity(self.neg_margin)
        return Terms(generalized_lifted_structure(relations, *ends))
