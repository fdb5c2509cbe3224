"""Neighbourhood components analysis."""

from lookalike.distances import LpDistance
from lookalike.losses.base import AnchorLoss, Terms
from lookalike.ops.soft import log_sum_exp
from lookalike.registry import LOSSES
from lookalike.relations import Relations

__all__ = ["NCALoss", "squared_l2"]


def squared_l2() -> LpDistance:
    """Squared Euclidean distances of unit vectors."""
    return LpDistance(power=2)


@LOSSES.register("nca", paper="Goldberger et al., NeurIPS 2004")
class NCALoss(AnchorLoss):
    """The chance that a random near neighbour is of the anchor's class.

    ``-log(sum_P e^(-scale d^2) / sum_(P and N) e^(-scale d^2))``, mean over the anchors that have
    a positive.

    Args:
        softmax_scale: Multiplies the similarities.
    """

    additive = True
    default_distance = squared_l2

    softmax_scale: float = 1

    def terms(self, relations: Relations) -> Terms:
        """Minus the log of that chance, one value per anchor."""
        logits = relations.similarity * self.softmax_scale
        near = log_sum_exp(logits, relations.positives)
        everything = log_sum_exp(logits, relations.valid)
        some = (relations.positives > 0).any(1).to(logits.dtype)
        return Terms((everything - near) * some, some)
