"""Softmax over pairs: NT-Xent and the supervised contrastive loss."""

from typing import Unpack

from torch import Tensor
from torch.nn.functional import softplus

from lookalike.geometry import (
    Relations,
    listed_pairs,
    log_sum_exp,
    mean_of_positive,
    picked,
    weighted_mean,
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

    def __init__(self, temperature: float = 0.07, **options: Unpack[LossOptions]) -> None:
        super().__init__(**options)
        self.temperature = temperature

    def compute(self, relations: Relations) -> Tensor:
        """The loss of these relations."""
        scale = 1 / self.temperature
        rows, columns, weight = listed_pairs(relations.positives)
        push = log_sum_exp(relations.similarity, relations.negatives, scale=scale)
        pull = picked(relations.similarity, rows, columns) * scale
        return weighted_mean(softplus(push.index_select(0, rows) - pull), weight)


@LOSSES.register("supcon", paper="Khosla et al., NeurIPS 2020")
class SupConLoss(PairLoss):
    """All positives of an anchor against all its candidates, by softmax.

    ``-1/|P| sum_P log(e^(s_ap/t) / sum_(P and N) e^(s/t))``, mean over the anchors above zero. A
    batch without any negative gives the positives' part alone (PML: 0).
    """

    counts = False

    def __init__(self, temperature: float = 0.1, **options: Unpack[LossOptions]) -> None:
        super().__init__(**options)
        self.temperature = temperature

    def compute(self, relations: Relations) -> Tensor:
        """The loss of these relations."""
        scale = 1 / self.temperature
        positives = relations.positives
        number = positives.sum(1)
        total = log_sum_exp(relations.similarity, relations.valid, scale=scale)
        mean = (relations.similarity * positives).sum(1) * scale / number.clamp_min(1e-30)
        return mean_of_positive((total - mean) * number.sign(), number.sign())
