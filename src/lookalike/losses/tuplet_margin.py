"""The tuplet margin loss."""

import math

from torch.nn.functional import softplus

from lookalike.losses.base import PairLoss, Terms
from lookalike.ops.pairs import at_places, listed_pairs
from lookalike.ops.soft import log_sum_exp
from lookalike.registry import LOSSES
from lookalike.relations import Relations

__all__ = ["TupletMarginLoss"]


@LOSSES.register("tuplet-margin", paper="Yu and Tao, ICCV 2019")
class TupletMarginLoss(PairLoss):
    """Each positive, its angle eased by a margin, against the anchor's negatives.

    ``log(1 + sum_N e^(scale (cos theta_an - cos(theta_ap - margin))))``, mean over positive pairs;
    ``margin`` in degrees.

    Args:
        margin: Taken off the angle to the positive, in degrees.
        scale: Of the cosines.
    """

    needs = "the cosine"

    margin: float = 5.73
    scale: float = 64

    def terms(self, relations: Relations) -> Terms:
        """The formula, one value per positive pair."""
        pairs = listed_pairs(relations.positives)
        push = log_sum_exp(relations.similarity * self.scale, relations.negatives)
        # acos has no gradient at its ends; stay a hair inside
        cosine = at_places(relations.similarity, pairs.places).clamp(-1 + 1e-7, 1 - 1e-7)
        eased = (cosine.acos() - self.margin * (math.pi / 180)).cos()
        values = softplus(push.index_select(0, pairs.rows) - self.scale * eased)
        return Terms(values, pairs.weights, relations.counts_of(pairs), places=pairs)
