"""The proxy-anchor loss: proxies are anchors, the images of a batch their candidates."""

import torch
from torch import Tensor, nn

from lookalike.losses.base import ProxyLoss, Terms
from lookalike.losses.kernels.soft_sums import proxy_anchor_kernel
from lookalike.miners.mined import sample_weights
from lookalike.ops.soft import log1p_sum_exp
from lookalike.reducers import Batch, DivisorReducer, Reducer
from lookalike.registry import LOSSES
from lookalike.relations import Relations

__all__ = ["ProxyAnchorLoss", "pull_to_proxies"]


def pull_to_proxies(r: Relations, alpha: float, margin: float) -> Terms:
    """``log(1 + sum_(x in X+) e^(-a(s - m)))``, over the proxies that have a positive."""
    pull = log1p_sum_exp(alpha * (margin - r.similarity), r.positives)
    number = (r.positives > 0).any(1).sum()
    return Terms(pull, name="pos_loss", divisor=number)


def push_from_proxies(r: Relations, alpha: float, margin: float) -> Terms:
    """``log(1 + sum_(x in X-) e^(a(s + m)))``, one value per proxy."""
    return Terms(log1p_sum_exp(alpha * (r.similarity + margin), r.negatives), name="neg_loss")


@LOSSES.register("proxy-anchor", paper="Kim et al., CVPR 2020")
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
    sub_losses = ("pos_loss", "neg_loss")
    compares = "proxies with images"
    fused_kernel = proxy_anchor_kernel

    margin: float = 0.1
    alpha: float = 32

    def __post_init__(self) -> None:
        super().__post_init__()
        self.proxies = self.learned(
            self.num_classes,
            self.embedding_size,
            start=lambda rows: nn.init.kaiming_normal_(rows, mode="fan_out"),
        )

    def default_reducer(self) -> Reducer:
        """The sum over the number of proxies, for positives of those that have one."""
        return DivisorReducer()

    def batch(self, relations: Relations) -> Batch:
        """The anchors are the proxies, each of its own class."""
        size = relations.similarity.shape
        return Batch(size[0], size[1], torch.arange(size[0], device=relations.similarity.device))

    def class_vectors(self) -> Tensor:
        """The proxies."""
        return self.proxies

    def similarities(self, embeddings: Tensor) -> Tensor:
        """Proxies x images."""
        if not self.distance.symmetric:
            return super().similarities(embeddings).T
        rows = self.rows(embeddings)
        return self.distance.similarity(self.proxies.to(rows.dtype), rows)

    def terms(self, relations: Relations) -> tuple[Terms, ...]:
        """The formula, on proxies x images."""
        margin = self.distance.level(self.margin)
        return (
            pull_to_proxies(relations, self.alpha, margin),
            push_from_proxies(relations, self.alpha, margin),
        )

    def narrow(self, relations: Relations, mined: Relations) -> Relations:
        """As PML: an image of weight w counts ``e^(w - 1)`` times in each sum."""
        weights = sample_weights(mined, relations.similarity.dtype, anchors_only=False)
        times = torch.exp(weights - 1).expand(relations.similarity.shape)
        return relations._replace(valid=relations.valid * times, all_valid=False, mined=True)
