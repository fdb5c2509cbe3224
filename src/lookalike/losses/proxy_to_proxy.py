"""Proxy-to-proxy losses: images are pulled to proxies, proxies push one another."""

from typing import Unpack

import torch
from torch import Tensor

from lookalike.losses.base import ProxyOptions, Terms
from lookalike.losses.proxy_anchor import ProxyAnchorLoss, pull_to_proxies
from lookalike.ops.soft import log1p_sum_exp
from lookalike.registry import LOSSES
from lookalike.relations import Relations

__all__ = ["ProxyToProxy1Loss", "ProxyToProxy2Loss"]


def push_apart(similarity: Tensor, alpha: float, margin: float) -> Terms:
    """``log(1 + sum_(w' != w) e^(alpha (s_ww' + margin)))``, one value per proxy."""
    others = torch.ones_like(similarity, requires_grad=False).fill_diagonal_(0)
    return Terms(log1p_sum_exp(alpha * (similarity + margin), others))


@LOSSES.register("proxy-to-proxy-1", paper="Psomas, thesis 2020, variant 1")
class ProxyToProxy1Loss(ProxyAnchorLoss):
    """Proxy-anchor's pull on the images; each proxy pushes the other proxies.

    ``1/|W+| sum_(W+) log(1 + sum_(X+) e^(-alpha (s - margin)))
    + 1/|W| sum_w log(1 + sum_(w' != w) e^(alpha (w.w' + margin)))``.

    Args:
        num_classes: How many classes there are.
        embedding_size: The dimension of the embeddings.
        margin: Of the cosines.
        alpha: The scale of the cosines.
        options: Those of every loss with proxies, see ``ProxyOptions``.
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
        num_classes: How many classes there are.
        embedding_size: The dimension of the embeddings.
        margin: Of the cosines.
        alpha: The scale of the cosines.
        average: Whether to take the mean over images instead of the sum.
        options: Those of every loss with proxies, see ``ProxyOptions``.
    """

    def __init__(
        self,
        num_classes: int,
        embedding_size: int,
        margin: float = 0.1,
        alpha: float = 32,
        average: bool = False,
        **options: Unpack[ProxyOptions],
    ) -> None:
        super().__init__(num_classes, embedding_size, margin, alpha, **options)
        self.average = average

    def between(self, relations: Relations) -> Tensor:
        """How similar the proxies are to the same images."""
        shared = relations.similarity @ relations.similarity.T
        return shared / relations.similarity.shape[1] if self.average else shared
