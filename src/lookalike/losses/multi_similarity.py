"""Losses that weigh each pair by the anchor's other pairs: multi-similarity and circle."""

import torch
from torch import Tensor
from torch.nn.functional import softplus

from lookalike.losses.base import PairLoss, Terms
from lookalike.losses.direction import candidate_directions
from lookalike.miners.mined import distinct_pairs
from lookalike.ops.sums import log1p_sum_exp, log_sum_exp
from lookalike.reducers import AvgNonZeroReducer
from lookalike.registry import LOSSES
from lookalike.relations import Relations

__all__ = ["CircleLoss", "MultiSimilarityLoss"]


def multi_similarity(
    r: Relations, alpha: float, beta: float, base: float, repelled: Tensor
) -> Tensor:
    """``1/a log(1 + sum_P e^(-a(s-m))) + 1/b log(1 + sum_N e^(b(s-m)))``, one value per anchor.

    ``repelled`` are the similarities that negatives are judged by.
    """
    pull = log1p_sum_exp(alpha * (base - r.similarity), r.positives) / alpha
    push = log1p_sum_exp(beta * (repelled - base), r.negatives) / beta
    return pull + push


def circle(r: Relations, m: float, gamma: float) -> Tensor:
    """``softplus(log sum_P e^(g a_p (1 - m - s)) + log sum_N e^(g a_n (s - m)))`` per anchor.

    ``a_p = [1 + m - s]+`` and ``a_n = [s + m]+`` are constants.
    """
    constant = r.similarity.detach()
    pull = (1 + m - constant).relu() * (1 - m - r.similarity)
    push = (constant + m).relu() * (r.similarity - m)
    total = log_sum_exp(gamma * pull, r.positives) + log_sum_exp(gamma * push, r.negatives)
    return softplus(total)  # a sum without terms is -1e30: 0 where an anchor lacks a kind


@LOSSES.register(
    "multi-similarity", paper="Wang et al., CVPR 2019", url="https://arxiv.org/abs/1904.06627"
)
class MultiSimilarityLoss(PairLoss):
    """Weighs each pair by its own similarity and by those of the anchor's other pairs.

    ``1/alpha log(1 + sum_P e^(-alpha (s - base))) + 1/beta log(1 + sum_N e^(beta (s - base)))``,
    mean over anchors. ``direction``: direction regularisation; a negative's ``s_an`` becomes
    ``s_an - direction * cos(x_p - x_a, x_n - x_a)``, p the anchor's least similar positive
    (Mohan et al., CVPR 2020).

    Args:
        alpha: Steepness for positives.
        beta: Steepness for negatives.
        base: The similarity that pairs are compared with.
        direction: The weight of direction regularisation.
    """

    additive = True
    from_miner = distinct_pairs

    alpha: float = 2
    beta: float = 50
    base: float = 0.5
    direction: float = 0

    def terms(self, relations: Relations) -> Terms:
        """One value per anchor."""
        base = self.distance.to_similarity(self.base)
        repelled = relations.similarity
        if self.direction:
            positive = relations.positives > 0
            hardest = repelled.detach().where(positive, torch.inf).argmin(1)
            between = self.between_candidates(relations)
            directions = candidate_directions(relations, self.distance, hardest, between)
            repelled = repelled - self.direction * directions * positive.any(1, keepdim=True)
        return Terms(multi_similarity(relations, self.alpha, self.beta, base, repelled))


@LOSSES.register("circle", paper="Sun et al., CVPR 2020", url="https://arxiv.org/abs/2002.10857")
class CircleLoss(PairLoss):
    """Pairs weigh by how far they are from where they should be.

    ``softplus(log sum_P e^(-gamma [1 + m - s]+ (s - 1 + m))
    + log sum_N e^(gamma [s + m]+ (s - m)))``
    (the factors in brackets are constants), mean over the anchors that have both kinds of pairs.

    Args:
        m: The relaxation margin.
        gamma: The scale of the similarities.
    """

    additive = True
    from_miner = distinct_pairs
    needs = "a similarity (cosine)"
    default_reducer = AvgNonZeroReducer

    m: float = 0.4
    gamma: float = 80

    def terms(self, relations: Relations) -> Terms:
        """One value per anchor."""
        return Terms(circle(relations, self.m, self.gamma))
