"""The triplet loss with a margin that follows how hard the batches are."""

import torch
from torch import Tensor

from lookalike.distances import LpDistance
from lookalike.labels import Labels
from lookalike.losses.base import PairLoss, Terms
from lookalike.losses.every_triplet import every_triplet
from lookalike.miners.mined import Indices
from lookalike.ops.histogram import soft_histogram
from lookalike.relations import Relations

__all__ = ["DynamicSoftMarginLoss"]


class DynamicSoftMarginLoss(PairLoss):
    """Each triplet weighed by the share of triplets, of now and before, that are easier.

    ``mean CDF(d_ap - d_an) (d_ap - d_an)``; the CDF is that of a running histogram of ``num_bins``
    edges from ``min_val`` up, ``2 |min_val| / num_bins`` apart. The weights are constants (in PML a
    gradient flows through the histogram too). Without labels, ``loss(anchors, ref_emb=positives)``
    takes row i of both for a positive pair, and its hardest negative in either direction (Zhang and
    Rusinkiewicz, ICCV 2019).

    Args:
        min_val: The least ``d_ap - d_an`` of the histogram.
        num_bins: Edges of the histogram.
        momentum: The weight of the batch in the running histogram; that of the first batch is 1.
    """

    reads_triplets = True
    default_distance = LpDistance
    needs = "distances of unit vectors (l2 or l2-squared)"

    min_val: float = -2.0
    num_bins: int = 10
    momentum: float = 0.01

    def __post_init__(self) -> None:
        super().__post_init__()
        self.delta = 2 * abs(self.min_val) / self.num_bins
        self.register_buffer("hist_", torch.zeros(self.num_bins), persistent=False)

    def check_given(
        self,
        labels: Labels | None,
        indices_tuple: Indices | None,
        ref_emb: Tensor | None,
        ref_labels: Labels | None,
    ) -> None:
        """Labels may be missing: row i of ``ref_emb`` is then the positive of row i."""
        if ref_emb is None:
            super().check_given(labels, indices_tuple, ref_emb, ref_labels)

    def terms(self, relations: Relations) -> Terms:
        """The formula, one value per triplet."""
        if relations.labels is None and not relations.mined:
            found = _hardest(relations.similarity)
            return Terms(self.weighed(found, torch.ones_like(found)))
        triplets = every_triplet(relations)
        counts = triplets.weights if triplets.counts is None else triplets.counts
        apart = triplets.an - triplets.ap
        values = self.weighed(apart, counts)
        return Terms(values, triplets.weights, counts, places=triplets.places)

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


def _hardest(similarity: Tensor) -> Tensor:
    """``d_ii`` less the least of ``d_ij`` and ``d_ji``, for rows i that both sides have."""
    number = min(similarity.shape)
    others = ~torch.eye(*similarity.shape, dtype=torch.bool, device=similarity.device)
    apart = similarity.where(others, -torch.inf)
    nearest = torch.maximum(apart.amax(0)[:number], apart.amax(1)[:number])
    return nearest.where(nearest.isfinite(), similarity.diagonal()) - similarity.diagonal()
