"""Losses whose anchors are proxies: proxy-anchor, and the proxy-to-proxy losses."""

from functools import partial

import torch
from torch import Tensor, nn

from lookalike.losses.proxies import ProxyLoss
from lookalike.miners.mined import weights_in_sums
from lookalike.ops.sums import log1p_sum_exp
from lookalike.reducers import DivisorReducer, Terms
from lookalike.registry import LOSSES
from lookalike.relations import Relations

__all__ = ["ProxyAnchorLoss", "ProxyToProxy1Loss", "ProxyToProxy2Loss"]


by_their_number = partial(nn.init.kaiming_normal_, mode="fan_out")
"""How proxies start, as the paper's code does."""


def pull_to_proxies(r: Relations, alpha: float, margin: float) -> Terms:
    """``log(1 + sum_(x in X+) e^(-a(s - m)))``, over the proxies that have a positive."""
    pull = log1p_sum_exp(alpha * (margin - r.similarity), r.positives)
    number = (r.positives > 0).any(1).sum()
    return Terms(pull, name="pos_loss", divisor=number)


def push_from_proxies(r: Relations, alpha: float, margin: float) -> Terms:
    """``log(1 + sum_(x in X-) e^(a(s + m)))``, one value per proxy."""
    push = log1p_sum_exp(alpha * (r.similarity + margin), r.negatives)
    return Terms(push, name="neg_loss")


def push_apart(similarity: Tensor, alpha: float, margin: float) -> Terms:
    """``log(1 + sum_(w' != w) e^(alpha (s_ww' + margin)))``, one value per proxy."""
    others = torch.ones_like(similarity, requires_grad=False).fill_diagonal_(0)
    return Terms(log1p_sum_exp(alpha * (similarity + margin), others), name="neg_loss")


@LOSSES.register(
    "proxy-anchor", paper="Kim et al., CVPR 2020", url="https://arxiv.org/abs/2003.13911"
)
class ProxyAnchorLoss(ProxyLoss):
    """Each class has a proxy that pulls and pushes the images of a batch by their hardness.

    ``1/|W+| sum_(W+) log(1 + sum_(X+) e^(-alpha (s - margin)))
    + 1/|W| sum_W log(1 + sum_(X-) e^(alpha (s + margin)))``. Its relations are proxies x images.

    Args:
        margin: Positives count as near when their cosine exceeds it, negatives as far below minus
            it.
        alpha: The scale of the cosines inside the exponentials. A large one makes each proxy
            listen to its hardest images only, a small one to all of them alike.
    """

    additive = True
    proxies_are_anchors = True
    from_miner = weights_in_sums
    default_init = by_their_number
    default_reducer = DivisorReducer

    margin: float = 0.1
    alpha: float = 32

    def terms(self, relations: Relations) -> tuple[Terms, ...]:
        """Two values per proxy."""
        margin = self.distance.to_similarity(self.margin)
        return (
            pull_to_proxies(relations, self.alpha, margin),
            push_from_proxies(relations, self.alpha, margin),
        )


@LOSSES.register("proxy-to-proxy-1", paper="Psomas, thesis 2020, variant 1")
class ProxyToProxy1Loss(ProxyLoss):
    """Proxy-anchor's pull on the images; each proxy pushes the other proxies.

    ``1/|W+| sum_(W+) log(1 + sum_(X+) e^(-alpha (s - margin)))
    + 1/|W| sum_w log(1 + sum_(w' != w) e^(alpha (w.w' + margin)))``.

    Args:
        margin: Positives count as near when their cosine exceeds it, proxies as far below minus it.
        alpha: The scale of the cosines inside the exponentials.
    """

    additive = False  # no image is a negative: of a mixed label only one part would count
    proxies_are_anchors = True
    from_miner = weights_in_sums
    default_init = by_their_number
    default_reducer = DivisorReducer

    margin: float = 0.1
    alpha: float = 32

    def between(self, relations: Relations) -> Tensor:
        """The similarities of the proxies to one another."""
        return self.distance.similarity(self.proxies.to(relations.similarity.dtype))

    def terms(self, relations: Relations) -> tuple[Terms, ...]:
        """Two values per proxy."""
        margin = self.distance.to_similarity(self.margin)
        return (
            pull_to_proxies(relations, self.alpha, margin),
            push_apart(self.between(relations), self.alpha, margin),
        )


@LOSSES.register("proxy-to-proxy-2", paper="Psomas, thesis 2020, variant 2")
class ProxyToProxy2Loss(ProxyLoss):
    """As variant 1, proxies compared through the images of the batch.

    ``w.w'`` becomes ``sum_x (w.x)(x.w')``, the entries of ``(W X^T)(X W^T)``. The sum grows with
    the batch; ``average=True`` takes the mean instead.

    Args:
        margin: Positives count as near when their cosine exceeds it.
        alpha: The scale of the cosines inside the exponentials.
        average: Whether to take the mean over images instead of the sum.
    """

    additive = False
    proxies_are_anchors = True
    from_miner = weights_in_sums
    default_init = by_their_number
    default_reducer = DivisorReducer

    margin: float = 0.1
    alpha: float = 32
    average: bool = False

    def between(self, relations: Relations) -> Tensor:
        """The similarities of the proxies to one another."""
        between = relations.similarity @ relations.similarity.T
        return between / relations.similarity.shape[1] if self.average else between

    def terms(self, relations: Relations) -> tuple[Terms, ...]:
        """Two values per proxy."""
        margin = self.distance.to_similarity(self.margin)
        return (
            pull_to_proxies(relations, self.alpha, margin),
            push_apart(self.between(relations), self.alpha, margin),
        )
