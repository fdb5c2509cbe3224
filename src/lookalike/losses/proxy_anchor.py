"""The proxy-anchor loss: proxies are anchors, the images of a batch their candidates."""

from typing import Unpack

import torch
from torch import Tensor, nn

from lookalike.labels import Labels, as_tensor, class_rows
from lookalike.losses.base import ProxyLoss, ProxyOptions, Terms
from lookalike.losses.kernels import Kernel
from lookalike.losses.kernels.proxy_anchor import proxy_anchor_kernel
from lookalike.miners.mined import sample_weights
from lookalike.ops.soft import log1p_sum_exp
from lookalike.registry import LOSSES
from lookalike.relations import Relations

__all__ = ["ProxyAnchorLoss", "pull_to_proxies"]


def pull_to_proxies(r: Relations, alpha: float, margin: float) -> Terms:
    """``log(1 + sum_(x in X+) e^(-a(s - m)))``, one value per proxy that has a positive."""
    pull = log1p_sum_exp(alpha * (margin - r.similarity), r.positives)
    return Terms(pull, (r.positives > 0).any(1).to(pull.dtype))


def push_from_proxies(r: Relations, alpha: float, margin: float) -> Terms:
    """``log(1 + sum_(x in X-) e^(a(s + m)))``, one value per proxy."""
    return Terms(log1p_sum_exp(alpha * (r.similarity + margin), r.negatives))


@LOSSES.register("proxy-anchor", paper="Kim et al., CVPR 2020")
class ProxyAnchorLoss(ProxyLoss):
    """Each class has a proxy that pulls and pushes the images of a batch by their hardness.

    ``1/|W+| sum_(W+) log(1 + sum_(X+) e^(-alpha (s - margin)))
    + 1/|W| sum_W log(1 + sum_(X-) e^(alpha (s + margin)))``. Its relations are proxies x images.

    Args:
        num_classes: How many classes there are.
        embedding_size: The dimension of the embeddings.
        margin: Of the cosines.
        alpha: The scale of the cosines.
        options: Those of every loss with proxies, see ``ProxyOptions``.
    """

    additive = True
    compares = "proxies with images"

    def __init__(
        self,
        num_classes: int,
        embedding_size: int,
        margin: float = 0.1,
        alpha: float = 32,
        **options: Unpack[ProxyOptions],
    ) -> None:
        super().__init__(num_classes, embedding_size, **options)
        self.margin = margin
        self.alpha = alpha
        self.proxies = self.learned(
            num_classes,
            embedding_size,
            start=lambda rows: nn.init.kaiming_normal_(rows, mode="fan_out"),
        )

    def class_vectors(self) -> Tensor:
        """The proxies."""
        return self.proxies

    def to_proxies(self, embeddings: Tensor, labels: Labels) -> Relations:
        """Proxies x images."""
        if not self.distance.symmetric:
            turned = super().to_proxies(embeddings, labels)
            return turned._replace(
                similarity=turned.similarity.T, same=turned.same.T, valid=turned.valid.T
            )
        rows = self.rows(embeddings)
        given = as_tensor(labels, rows.shape[0])
        similarity = self.distance.similarity(self.proxies.to(rows.dtype), rows)
        return Relations(
            similarity,
            class_rows(given, rows.shape[0], self.num_classes, rows).T,
            similarity.new_ones(()).expand(similarity.shape),
            labels=given.to(rows.device),
            all_valid=True,
            binary=given.ndim == 1,
        )

    def terms(self, relations: Relations) -> tuple[Terms, ...]:
        """The formula, on proxies x images."""
        margin = self.distance.level(self.margin)
        return (
            pull_to_proxies(relations, self.alpha, margin),
            push_from_proxies(relations, self.alpha, margin),
        )

    def kernel(self, relations: Relations) -> Kernel | None:  # noqa: ARG002
        """Both sums and their gradients in one pass."""
        return proxy_anchor_kernel

    def narrow(self, relations: Relations, mined: Relations) -> Relations:
        """As PML: an image of weight w counts ``e^(w - 1)`` times in each sum."""
        weights = sample_weights(mined, relations.similarity.dtype, anchors_only=False)
        times = torch.exp(weights - 1).expand(relations.similarity.shape)
        return relations._replace(valid=relations.valid * times, all_valid=False, mined=True)
