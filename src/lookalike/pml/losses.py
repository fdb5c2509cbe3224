"""``pytorch_metric_learning.losses``: everything of ``lookalike.losses``, called as PML's.

Here are the memory as PML has it, and losses of PML that no configuration of Lookalike names.
"""

import math
from dataclasses import KW_ONLY
from typing import Any

import torch
from torch import Tensor, nn

from lookalike.distances import CosineSimilarity, LpDistance
from lookalike.errors import BadInput
from lookalike.labels import class_rows
from lookalike.losses import *
from lookalike.memory import CrossBatchMemory as Memory
from lookalike.miners.mined import chosen_triplets
from lookalike.ops.rows import check_rows, products
from lookalike.ops.sums import soft_histogram
from lookalike.pml.base_losses import *
from lookalike.pml.base_losses import OfLosses
from lookalike.pml.reducers import as_loss_dict
from lookalike.pml.shipped import ship
from lookalike.reducers.base import triplet_terms
from lookalike.relations import Relations


class CrossBatchMemory(Memory):
    """A loss that compares each batch with the last ``memory_size`` embeddings.

    ``lookalike.memory.CrossBatchMemory`` with what code written against PML calls on it.
    """

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        super()._load_from_state_dict(state_dict, prefix, *rest)
        counters = f"{prefix}_extra_state"
        if counters not in state_dict and counters in rest[2]:
            rest[2].remove(counters)  # PML's memory has none, and starts at the first slot again

    @property
    def queue_idx(self) -> int:
        """The slot of the next embedding."""
        return self.seen % self.memory_size

    def add_to_memory(self, embeddings: Tensor, labels: Tensor, batch_size: int) -> None:  # noqa: ARG002
        """Put a batch over the oldest entries, in the slots ``curr_batch_idx``."""
        self._enqueue(embeddings, labels)

    @torch.no_grad()
    def _enqueue(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        slots = super()._enqueue(embeddings, labels)
        self.curr_batch_idx = slots.to(embeddings.device)
        return slots


def one_per_row(values: Tensor, name: str = "loss") -> dict[str, Any]:
    """One value per image or component, as a dictionary."""
    return as_loss_dict([Terms(values, name=name)])


class ManifoldLoss(BaseMetricLossFunction):
    """Each image nearer to its own proxy than to others, by random walks over all of them.

    ``F = (1 - alpha) (I - alpha S)^-1`` with S the normalised ``e^(2 [s]+)`` among images and
    proxies. For an image i of proxy c: ``log(1 + sum_k e^(F_ik - F_ic + margin))`` over the other
    proxies for which the exponent is not negative (intrinsic), plus ``lambdaC`` times the same of
    the cosines of the rows of F (context); mean over images (Aziere and Todorovic, CVPR 2019).
    There are no labels: each image belongs to a random proxy, unless ``indices_tuple`` says which.

    Args:
        l: The dimension of the embeddings.
        K: How many proxies there are.
        lambdaC: The weight of the context part; infinite: that part alone.
        alpha: How much of its similarity a node passes on, between 0 and 1.
        margin: By how much the own proxy must be nearer.
    """

    default_distance = CosineSimilarity
    needs = "the cosine"

    l: int  # noqa: E741
    _: KW_ONLY
    K: int = 50
    lambdaC: float = 1.0  # noqa: N815
    alpha: float = 0.8
    margin: float = 5e-4

    def __post_init__(self) -> None:
        if self.lambdaC < 0:
            raise BadInput(f"lambdaC is {self.lambdaC}; it must not be negative")
        self.proxies = nn.Parameter(torch.randn(self.K, self.l))

    def compute_loss(
        self, embeddings: Tensor, labels: Any, indices_tuple: Any, ref_emb: Tensor, ref_labels: Any
    ) -> dict[str, Any]:
        """The two parts, one value per image; ``indices_tuple`` [N] names the proxy of each."""
        if labels is not None or ref_labels is not None:
            raise BadInput("ManifoldLoss takes no labels; indices_tuple may name the proxies")
        if ref_emb is not embeddings:
            raise BadInput("ManifoldLoss compares with its proxies, not with ref_emb")
        check_rows(embeddings, self.l)
        number, device = len(embeddings), embeddings.device
        if isinstance(indices_tuple, Tensor):
            of_images = indices_tuple.to(device)
        else:
            more = torch.randint(self.K, (max(0, number - self.K),))
            proxies = torch.cat([torch.arange(self.K), more])
            of_images = proxies[torch.randperm(len(proxies))][:number].to(device)
        own = of_images.unsqueeze(1) == torch.arange(self.K, device=device)
        nodes = torch.cat([embeddings, self.proxies.to(embeddings.dtype)])
        itself = torch.eye(len(nodes), dtype=torch.bool, device=device)
        near = (2 * products(nodes, unit_rows=True).relu()).exp().masked_fill(itself, 0)
        scale = near.sum(1).rsqrt()
        walk = scale.unsqueeze(1) * near * scale
        reached = (1 - self.alpha) * torch.linalg.inv(itself.to(walk.dtype) - self.alpha * walk)
        context = self._missed(products(reached[:number], reached[number:], unit_rows=True), own)
        if math.isinf(self.lambdaC):
            return one_per_row(context)
        return one_per_row(self._missed(reached[:number, number:], own) + self.lambdaC * context)

    def _missed(self, similarity: Tensor, own: Tensor) -> Tensor:
        """``log(1 + sum e^(s_k - s_own + margin))`` over exponents that are not negative."""
        right = (similarity * own).sum(1, keepdim=True)
        excess = similarity - right + self.margin
        return (excess.exp() * ((excess >= 0) & ~own)).sum(1).log1p()


class VICRegLoss(BaseMetricLossFunction):
    """Two views of each image near, every component spread, no two components alike.

    ``lambda mean |x - x'|^2 / D + mu (mean [1 - std x_d]+ + mean [1 - std x'_d]+) / 2
    + nu (sum_(d != e) cov(x_d, x_e)^2 + the same of x') / D`` (Bardes et al., ICLR 2022). Called as
    ``loss(views, ref_emb=other_views)``; there are no labels, and the distance is not used.

    Args:
        invariance_lambda: The weight of the distance between the views.
        variance_mu: The weight of the hinge on the standard deviations.
        covariance_v: The weight of the covariances.
        eps: Added to the variance before its root.
    """

    invariance_lambda: float = 25
    variance_mu: float = 25
    covariance_v: float = 1
    eps: float = 1e-4

    def compute_loss(
        self, embeddings: Tensor, labels: Any, indices_tuple: Any, ref_emb: Tensor, ref_labels: Any
    ) -> dict[str, Any]:
        """One value per image, one per component of each view, and one for all."""
        if not (labels is None and ref_labels is None and indices_tuple is None):
            raise BadInput("VICRegLoss takes two views, and neither labels nor indices")
        if ref_emb is embeddings or ref_emb.shape != embeddings.shape:
            raise BadInput("VICRegLoss needs ref_emb, the other view of each embedding")
        near = (embeddings - ref_emb).square().mean(1)
        found = one_per_row(self.invariance_lambda * near, "invariance_loss")
        covariances = near.new_zeros(())
        for number, rows in enumerate((embeddings, ref_emb), start=1):
            centred = rows - rows.mean(0)
            covariance = centred.T @ centred / max(1, len(rows) - 1)
            variance = covariance.diagonal()
            spread = (1 - (variance + self.eps).sqrt()).relu() / 2
            found |= one_per_row(self.variance_mu * spread, f"variance_loss{number}")
            others = covariance.square().sum() - variance.square().sum()
            covariances = covariances + others / rows.shape[1]
        weighed = Terms(self.covariance_v * covariances, name="covariance_loss")
        return found | as_loss_dict([weighed])


class P2SGradLoss(BaseMetricLossFunction):
    """The cosine to the right class 1, to all others 0.

    ``1/C sum_c (cos theta_c - [c = y])^2``, mean over images (Zhang et al., CVPR 2019). There is no
    margin and no scale to choose.

    Args:
        descriptors_dim: The dimension of the embeddings.
        num_classes: How many classes there are.
    """

    default_distance = CosineSimilarity
    needs = "the cosine"

    descriptors_dim: int
    num_classes: int

    def __post_init__(self) -> None:
        start = torch.empty(self.descriptors_dim, self.num_classes).uniform_(-1, 1)
        self.weight = nn.Parameter(start / torch.linalg.vector_norm(start, dim=0, keepdim=True))

    def compute_loss(
        self, embeddings: Tensor, labels: Any, indices_tuple: Any, ref_emb: Tensor, ref_labels: Any
    ) -> dict[str, Any]:
        """The mean squared error of the cosines, one value per image."""
        alone = ref_emb is embeddings and ref_labels is labels
        if labels is None or indices_tuple is not None or not alone:
            raise BadInput("P2SGradLoss takes embeddings and labels, and nothing else")
        check_rows(embeddings, self.descriptors_dim)
        cosine = self.distance.similarity(embeddings, self.weight.T.to(embeddings.dtype))
        right = class_rows(labels, self.num_classes, cosine)
        return one_per_row((cosine - right).square().mean(1))


class DynamicSoftMarginLoss(PairLoss):
    """Each triplet weighed by the share of triplets, of now and before, that are easier.

    ``mean CDF(d_ap - d_an) (d_ap - d_an)``; the CDF is that of a running histogram of ``num_bins``
    edges from ``min_val`` up, ``2 |min_val| / num_bins`` apart. The weights are constants (in PML a
    gradient flows through the histogram too); see Zhang and Rusinkiewicz, ICCV 2019.

    Args:
        min_val: The least ``d_ap - d_an`` of the histogram.
        num_bins: Edges of the histogram.
        momentum: The weight of the batch in the running histogram; that of the first batch is 1.
    """

    from_miner = chosen_triplets
    default_distance = LpDistance
    needs = "distances of unit vectors (l2 or l2-squared)"

    min_val: float = -2.0
    num_bins: int = 10
    momentum: float = 0.01

    def __post_init__(self) -> None:
        self.delta = 2 * abs(self.min_val) / self.num_bins
        self.register_buffer("hist_", torch.zeros(self.num_bins), persistent=False)

    def terms(self, relations: Relations) -> Terms:
        """``CDF(d_ap - d_an) (d_ap - d_an)``, one value per triplet."""
        apart = relations.an - relations.ap
        counts = relations.triplet_weights()[1]
        return triplet_terms(relations, self.weighed(apart, counts))

    def weighed(self, apart: Tensor, counts: Tensor) -> Tensor:
        """``CDF(d_ap - d_an) (d_ap - d_an)``, the histogram brought up to date before."""
        place = ((apart.detach() - self.min_val) / self.delta).clamp(0, self.num_bins - 1)
        with torch.no_grad():
            self._update(place.flatten(), counts.expand_as(place).flatten())
        cumulative = self.get_buffer("hist_").cumsum(0).to(apart.dtype)
        return cumulative[place.floor().long()] * apart

    def _update(self, place: Tensor, counts: Tensor) -> None:
        """The running histogram, which sums to 1; as it was where there is no triplet."""
        new = soft_histogram(place.unsqueeze(0), counts.unsqueeze(0), self.num_bins - 1)[0]
        before = self.get_buffer("hist_").to(new)
        some, first = new.sum() > 0, before.sum() == 0
        share = torch.where(first, 1, self.momentum)
        mixed = (1 - share) * before + share * new
        mixed = mixed / mixed.sum().clamp_min(torch.finfo(mixed.dtype).tiny)
        self.hist_ = torch.where(some, mixed, before)


ship(globals(), Loss, OfLosses)
