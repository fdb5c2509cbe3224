"""The N-pairs loss: one anchor-positive pair a class."""

import torch

from lookalike.distances import DotProductSimilarity
from lookalike.losses.base import PairLoss, Terms
from lookalike.miners.mined import keep_pairs
from lookalike.ops.soft import log_sum_exp
from lookalike.registry import LOSSES
from lookalike.relations import Relations

__all__ = ["NPairsLoss"]


@LOSSES.register("n-pairs", paper="Sohn, NeurIPS 2016")
class NPairsLoss(PairLoss):
    """Each class's positive against the positives of the other classes.

    One pair (a, p) a class, its first: ``-log(e^(s_ap) / sum_q e^(s_aq))`` over the positives q of
    all pairs, mean over pairs. The paper works on raw embeddings with a penalty on their length:
    ``distance="dot"``, ``embedding_regularizer={"name": "l2", "power": 2}``,
    ``embedding_reg_weight=0.02``.
    """

    needs_labels = True
    default_distance = DotProductSimilarity

    def narrow(self, relations: Relations, mined: Relations) -> Relations:
        """The positive pairs that the miner chose (of each class the first, in order of index)."""
        return keep_pairs(relations, mined)

    def terms(self, relations: Relations) -> Terms:
        """The formula, one value per anchor; only the first pair of each class counts."""
        similarity, positives = relations.similarity, relations.positives
        has = positives > 0
        partner = has.int().argmax(1)
        alike = relations.same > 0 if relations.self_comparison else partner[:, None] == partner
        # an anchor counts if no earlier one of its class has a pair
        earlier = alike & has.any(1) & torch.ones_like(alike).tril(-1)
        first = (has.any(1) & ~earlier.any(1)).to(similarity.dtype)
        logits = similarity.index_select(1, partner)
        total = log_sum_exp(logits, first.expand_as(logits))
        return Terms(total - logits.diagonal(), first)
