"""Softmax over pairs: NT-Xent and the supervised contrastive loss."""

from typing import Unpack

import torch
from torch import Tensor
from torch.nn.functional import softplus

from lookalike.geometry import (
    Relations,
    at_places,
    attach,
    listed_pairs,
    log_sum_exp,
    soft_terms,
)
from lookalike.losses.base import LossOptions, PairLoss
from lookalike.registry import LOSSES

__all__ = ["NTXentLoss", "SupConLoss"]


@LOSSES.register("ntxent", paper="Sohn, NeurIPS 2016; Chen et al., ICML 2020")
class NTXentLoss(PairLoss):
    """Each positive against the anchor's negatives, by softmax.

    ``-log(e^(s_ap/t) / (e^(s_ap/t) + sum_N e^(s_an/t)))``, mean over positive pairs. In the log
    domain: temperatures of 0.0002 are fine. An anchor without negatives gives 0.
    """

    additive = True

    def __init__(self, temperature: float = 0.07, **options: Unpack[LossOptions]) -> None:
        super().__init__(**options)
        self.temperature = temperature

    def compute(self, relations: Relations) -> Tensor:
        """The loss of these relations."""
        scale = 1 / self.temperature
        pairs = listed_pairs(relations.positives)
        push = log_sum_exp(relations.similarity, relations.negatives, scale=scale)
        pull = at_places(relations.similarity, pairs.places) * scale
        values = softplus(push.index_select(0, pairs.rows) - pull)
        return relations.mean_over_positives(values, pairs)


@LOSSES.register("supcon", paper="Khosla et al., NeurIPS 2020")
class SupConLoss(PairLoss):
    """All positives of an anchor against all its candidates, by softmax.

    ``-1/|P| sum_P log(e^(s_ap/t) / sum_(P and N) e^(s/t))``, mean over the anchors above zero. A
    batch without any negative gives the positives' part alone (PML: 0).
    """

    additive = True
    counts = False

    def __init__(self, temperature: float = 0.1, **options: Unpack[LossOptions]) -> None:
        super().__init__(**options)
        self.temperature = temperature

    def compute(self, relations: Relations) -> Tensor:
        """The loss of these relations."""
        scale = 1 / self.temperature
        with torch.no_grad():
            known = relations.similarity.detach()
            total, share = soft_terms(known, relations.valid, scale=scale)
            chosen = relations.positives
            chosen = chosen / relations.positive_counts.sum(1, keepdim=True).clamp_min_(1e-30)
            label = chosen.sum(1, keepdim=True)  # 1 for an anchor with positives, unless mixed
            mean = torch.bmm(known.unsqueeze(1), chosen.unsqueeze(2)).squeeze(2)
            losses = total.mul_(label).sub_(mean.mul_(scale)).relu_()
            counted = losses.sign()
            count = counted.sum().clamp_min_(1)
            slope = share.mul_(label).sub_(chosen).mul_(counted.mul_(scale).div_(count))
        return attach(relations.similarity, losses.sum() / count, slope)
