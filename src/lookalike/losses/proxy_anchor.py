"""The proxy-anchor loss: proxies are anchors, the images of a batch their candidates."""

from functools import partial
from typing import Unpack

import torch
from torch import Tensor, nn

from lookalike.geometry import (
    Relations,
    attach,
    log_sum_exp,
    no_large_exponent,
    soft_terms,
)
from lookalike.labels import Labels, class_rows
from lookalike.losses.base import ProxyLoss, ProxyOptions
from lookalike.registry import LOSSES

__all__ = ["ProxyAnchorLoss", "proxy_anchor"]


def proxy_anchor(relations: Relations, alpha: float, margin: float) -> Tensor:
    """``pull_to_proxies`` plus ``1/|W| sum_w log(1 + sum_(x in X-) e^(a(s + m)))``."""
    similarity = relations.similarity
    with torch.no_grad():
        known = relations._replace(similarity=similarity.detach())
        if known.binary and no_large_exponent(known.similarity, alpha, margin, -margin):
            value, slope = _one_exponent(known, alpha, margin)
        else:
            value, slope = _two_exponents(known, alpha, margin)
    return attach(similarity, value, slope)


def _two_exponents(relations: Relations, alpha: float, margin: float) -> tuple[Tensor, Tensor]:
    """Value and slope where an image may be a positive and a negative of a proxy at once."""
    similarity, positives = relations.similarity, relations.positives
    terms = partial(soft_terms, plus_one=True)
    pull, near = terms(similarity, positives, scale=-alpha, shift=margin)
    push, far = terms(similarity, relations.negatives, scale=alpha, shift=-margin)
    with_images = positives.amax(1).sign_().sum().clamp_min_(1)
    value = pull.sum() / with_images + push.mean()
    return value, far.mul_(alpha / len(push)).sub_(near.mul_(alpha / with_images))


def _one_exponent(relations: Relations, alpha: float, margin: float) -> tuple[Tensor, Tensor]:
    """The same where it is one or the other: ``e^(a(m -+ s))``, half the work."""
    similarity, same = relations.similarity, relations.same
    far = torch.addcmul(similarity, similarity, same, value=-2)
    far.mul_(alpha).add_(alpha * margin).exp_()
    if not relations.whole:
        far.mul_(relations.valid)
    near = far * same
    far.sub_(near)
    pull, push = near.sum(1, keepdim=True), far.sum(1, keepdim=True)
    with_images = pull.sign().sum().clamp_min_(1)
    value = pull.log1p().sum() / with_images + push.log1p().sum() / len(push)
    pull.add_(1).mul_(with_images / alpha)
    push.add_(1).mul_(len(push) / alpha)
    return value, far.div_(push).sub_(near.div_(pull))


def pull_to_proxies(relations: Relations, alpha: float, margin: float) -> Tensor:
    """``1/|W+| sum_w log(1 + sum_(x in X+) e^(-a(s - m)))``, W+ = proxies with a positive."""
    weights = relations.positives
    pull = log_sum_exp(relations.similarity, weights, scale=-alpha, shift=margin, plus_one=True)
    return pull.sum() / weights.sum(1).sign().sum().clamp_min(1)


@LOSSES.register("proxy-anchor", paper="Kim et al., CVPR 2020")
class ProxyAnchorLoss(ProxyLoss):
    """Each class has a proxy that pulls and pushes the images of a batch by their hardness.

    ``1/|W+| sum_(W+) log(1 + sum_(X+) e^(-alpha (s - margin)))
    + 1/|W| sum_W log(1 + sum_(X-) e^(alpha (s + margin)))``. Its relations are proxies x images.
    """

    additive = True

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

    def relations(self, embeddings: Tensor, labels: Labels) -> Relations:
        """Proxies x images."""
        if not self.distance.symmetric:
            turned = super().relations(embeddings, labels)
            return Relations(turned.similarity.T, turned.same.T, turned.valid.T)
        rows = self.rows(embeddings)
        similarity = self.distance.similarity(self.proxies.to(rows.dtype), rows)
        binary = self.class_indices(embeddings, labels) is not None
        same = class_rows(labels, rows.shape[0], self.num_classes, rows).T
        valid = similarity.new_ones(()).expand(similarity.shape)
        return Relations(similarity, same, valid, binary=binary)

    def compute(self, relations: Relations) -> Tensor:
        """The loss of proxies x images."""
        return proxy_anchor(relations, self.alpha, self.distance.level(self.margin))

    def compute_weighted(self, relations: Relations, weights: Tensor) -> Tensor:
        """As PML: an image of weight w counts ``e^(w - 1)`` times in each sum."""
        times = torch.exp(weights - 1).expand(relations.similarity.shape)
        return self.compute(relations._replace(valid=relations.valid * times))
