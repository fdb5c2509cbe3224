"""ProxyNCA: neighbourhood components analysis against learned proxies."""

from typing import Literal

from torch import Tensor

from lookalike.distances import squared_l2
from lookalike.losses.direction import candidate_directions
from lookalike.losses.proxies import ProxyLoss, soft_cross_entropy
from lookalike.miners.mined import anchor_weights
from lookalike.ops.sums import log_sum_exp
from lookalike.reducers import Terms
from lookalike.registry import LOSSES
from lookalike.relations import Relations

__all__ = ["ProxyNCALoss", "ProxyNCAPlusPlusLoss"]


def against_others(r: Relations, logits: Tensor) -> Tensor:
    """``-log(e^(l_y) / sum_(c != y) e^(l_c))``, one value per image."""
    others = log_sum_exp(logits, r.negatives)
    return others * r.positives.sum(1) - (logits * r.positives).sum(1)


@LOSSES.register(
    "proxy-nca", paper="Movshovitz-Attias et al., ICCV 2017", url="https://arxiv.org/abs/1703.07464"
)
class ProxyNCALoss(ProxyLoss):
    """Each image near the proxy of its class, and far from the others.

    ``-log(e^(-softmax_scale D(x, w_y)) / sum_c e^(-softmax_scale D(x, w_c)))``, D the squared
    distance of unit vectors, mean over images. ``denominator="all"`` (default, as PML) sums over
    all classes, ``"others"`` over those other than y, as the paper has it. ``direction``:
    direction regularisation; ``direction * cos(w_y - x, w_c - x)`` is taken off the exponent of
    each other class (Mohan et al., CVPR 2020).

    Args:
        softmax_scale: Multiplies the distances.
        denominator: Whether the sum is over all classes or only over the others.
        direction: The weight of direction regularisation.
    """

    from_miner = anchor_weights
    default_distance = squared_l2

    softmax_scale: float = 1
    denominator: Literal["all", "others"] = "all"
    direction: float = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.direction:
            self.need_all_classes()

    def logit_scale(self) -> float:
        """``softmax_scale``."""
        return self.softmax_scale

    def terms(self, relations: Relations) -> Terms:
        """Minus the log of the chance of the right class, one value per image."""
        r, logits = relations, self.softmax_scale * relations.similarity
        if self.direction:
            between = self.distance.similarity(self.proxies.to(logits.dtype))
            own = r.positives.argmax(1)
            directions = candidate_directions(r, self.distance, own, between)
            logits = logits - self.direction * directions * r.negatives
        if self.denominator == "all":
            return Terms(soft_cross_entropy(r, logits))
        return Terms(against_others(r, logits))


@LOSSES.register(
    "proxy-nca++", paper="Teh et al., ECCV 2020", url="https://arxiv.org/abs/2004.01113"
)
class ProxyNCAPlusPlusLoss(ProxyLoss):
    """ProxyNCA as a softmax over all classes with a temperature.

    ``-log(e^(-D(x, w_y)/t) / sum_c e^(-D(x, w_c)/t))``. The paper also balances the classes of a
    batch, pools by maximum, and gives the proxies a faster learning rate: settings of the run.

    Args:
        temperature: Divides the distances.
    """

    from_miner = anchor_weights
    default_distance = squared_l2

    temperature: float = 1 / 9

    def logit_scale(self) -> float:
        """``1 / temperature``."""
        return 1 / self.temperature
