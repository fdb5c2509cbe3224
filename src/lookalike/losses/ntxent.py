"""Softmax over pairs: NT-Xent and the supervised contrastive loss."""

from torch import Tensor
from torch.nn.functional import logsigmoid

from lookalike.losses.base import PairLoss, Terms
from lookalike.losses.kernels.soft_sums import ntxent_kernel, supcon_kernel
from lookalike.ops.pairs import at_places, listed_pairs
from lookalike.ops.soft import log_sum_exp
from lookalike.reducers import AvgNonZeroReducer, Reducer
from lookalike.registry import LOSSES
from lookalike.relations import Relations

__all__ = ["NTXentLoss", "SupConLoss"]


def ntxent(r: Relations, temperature: float) -> Terms:
    """``-log(e^(s_ap/t) / (e^(s_ap/t) + sum_N e^(s_an/t)))``, one value per positive pair."""
    pairs = listed_pairs(r.positives)
    push = log_sum_exp(r.similarity / temperature, r.negatives)
    pull = at_places(r.similarity, pairs.places) / temperature
    values = -logsigmoid(pull - push.index_select(0, pairs.rows))
    return Terms(values, pairs.weights, r.counts_of(pairs), places=pairs)


def supcon(r: Relations, temperature: float) -> Tensor:
    """``-1/|P| sum_P log(e^(s_ap/t) / sum_(P and N) e^(s/t))``, one value per anchor."""
    logits = r.similarity / temperature
    total = log_sum_exp(logits, r.valid).unsqueeze(1)
    number = r.positive_counts.sum(1).clamp_min(1e-30)
    return ((total - logits) * r.positives).sum(1) / number


@LOSSES.register("ntxent", paper="Sohn, NeurIPS 2016; Chen et al., ICML 2020")
class NTXentLoss(PairLoss):
    """Each positive against the anchor's negatives, by softmax.

    ``-log(e^(s_ap/t) / (e^(s_ap/t) + sum_N e^(s_an/t)))``, mean over positive pairs. In the log
    domain: temperatures of 0.0002 are fine. An anchor without negatives gives 0.

    Args:
        temperature: Divides the similarities.
    """

    additive = True
    fused_kernel = ntxent_kernel

    temperature: float = 0.07

    def terms(self, relations: Relations) -> Terms:
        """The formula."""
        return ntxent(relations, self.temperature)


@LOSSES.register("supcon", paper="Khosla et al., NeurIPS 2020")
class SupConLoss(PairLoss):
    """All positives of an anchor against all its candidates, by softmax.

    ``-1/|P| sum_P log(e^(s_ap/t) / sum_(P and N) e^(s/t))``, mean over the anchors above zero. A
    batch without any negative gives the positives' part alone (PML: 0).

    Args:
        temperature: Divides the similarities.
    """

    additive = True
    counts = False
    fused_kernel = supcon_kernel

    temperature: float = 0.1

    def default_reducer(self) -> Reducer:
        """The mean over the values above zero."""
        return AvgNonZeroReducer()

    def terms(self, relations: Relations) -> Terms:
        """The formula."""
        return Terms(supcon(relations, self.temperature))
