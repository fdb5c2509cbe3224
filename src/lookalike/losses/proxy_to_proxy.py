"""Proxy-to-proxy losses: images are pulled to proxies, proxies push one another."""

import torch
from torch import Tensor

from lookalike.losses.base import Terms
from lookalike.losses.proxy_anchor import ProxyAnchorLoss, pull_to_proxies
from lookalike.ops.soft import log1p_sum_exp
from lookalike.registry import LOSSES
from lookalike.relations import Relations

__all__ = ["ProxyToProxy1Loss", "ProxyToProxy2Loss"]


def push_apart(similarity: Tensor, alpha: float, margin: float) -> Terms:
    """``log(1 + sum_(w' != w) e^(alpha (s_ww' + margin)))``, one value per proxy."""
    others = torch.ones_like(similarity, requires_grad=False).fill_diagonal_(0)
    return Terms(log1p_sum_exp(alpha * (similarity + margin), others), name="neg_loss")


@LOSSES.register("proxy-to-proxy-1", paper="Psomas, thesis 2020, variant 1")
class ProxyToProxy1Loss(ProxyAnchorLoss):
    """Proxy-anchor's pull on the images; each proxy pushes the other proxies.

    ``1/|W+| sum_(W+) log(1 + sum_(X+) e^(-alpha (s - margin)))
    + 1/|W| sum_w log(1 + sum_(w' != w) e^(alpha (w.w' + margin)))``.
    """

    additive = False  # no image is a negative: of a mixed label only one part would count

    def terms(self, relations: Relations) -> tuple[Terms, ...]:
        """The formula, on proxies x images."""
        margin = self.distance.level(self.margin)
        return (
            pull_to_proxies(relations, self.alpha, margin),
            push_apart(self.between(relations), self.alpha, margin),
        )

    def kernel(self, relations: Relations) -> None:
        """None: proxies are compared with one another."""

    def between(self, relations: Relations) -> Tensor:
        """How similar the proxies are to one another."""
        return self.distance.similarity(self.proxies.to(relations.similarity.dtype))


@LOSSES.register("proxy-to-proxy-2", paper="Psomas, thesis 2020, variant 2")
class ProxyToProxy2Loss(ProxyToProxy1Loss):
    """As variant 1, proxies compared through the images of the batch.

    ``w.w'`` becomes ``sum_x (w.x)(x.w')``, the entries of ``(W X^T)(X W^T)``. The sum grows with
    the batch; ``average=True`` takes the mean instead.

    Args:
        average: Whether to take the mean over images instead of the sum.
    """

    average: bool = False

    def between(self, relations: Relations) -> Tensor:
        """How similar the proxies are to the same images."""
        shared = relations.similarity @ relations.similarity.T
        return shared / relations.similarity.shape[1] if self.average else shared
