"""The circle loss."""

from torch.nn.functional import softplus

from lookalike.losses.base import PairLoss, Terms
from lookalike.ops.soft import log_sum_exp
from lookalike.reducers import AvgNonZeroReducer, Reducer
from lookalike.registry import LOSSES
from lookalike.relations import Relations

__all__ = ["CircleLoss"]


def circle(r: Relations, m: float, gamma: float) -> Terms:
    """``softplus(log sum_P e^(g a_p (1 - m - s)) + log sum_N e^(g a_n (s - m)))`` per anchor.

    ``a_p = [1 + m - s]+`` and ``a_n = [s + m]+`` are constants.
    """
    constant = r.similarity.detach()
    pull = (1 + m - constant).relu() * (1 - m - r.similarity)
    push = (constant + m).relu() * (r.similarity - m)
    total = log_sum_exp(gamma * pull, r.positives) + log_sum_exp(gamma * push, r.negatives)
    return Terms(softplus(total))  # a sum without terms is -1e30: 0 where an anchor lacks a kind


@LOSSES.register("circle", paper="Sun et al., CVPR 2020")
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
    counts = False
    needs = "a similarity (cosine)"

    m: float = 0.4
    gamma: float = 80

    def default_reducer(self) -> Reducer:
        """The mean over the values above zero."""
        return AvgNonZeroReducer()

    def terms(self, relations: Relations) -> Terms:
        """The formula."""
        return circle(relations, self.m, self.gamma)
