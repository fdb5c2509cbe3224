"""The histogram loss."""

import torch

from lookalike.errors import BadInput
from lookalike.losses.base import PairLoss, Terms
from lookalike.ops.histogram import soft_histogram
from lookalike.registry import LOSSES
from lookalike.relations import Relations

__all__ = ["HistogramLoss"]


@LOSSES.register(
    "histogram",
    paper="Ustinova and Lempitsky, NeurIPS 2016",
    url="https://arxiv.org/abs/1611.00822",
)
class HistogramLoss(PairLoss):
    """The chance that a random negative pair is more similar than a random positive pair.

    ``sum_r h^-_r sum_(q <= r) h^+_q`` of the histograms of cosines of positive and negative pairs,
    over ``n_bins`` bins (``delta = 2 / n_bins`` wide) on [-1, 1]. Only anchors with both kinds of
    pairs count; of a pair found in both directions one is counted.

    Args:
        n_bins: Bins of the histograms; None: as ``delta`` says, or 100.
        delta: The width of a bin, ``2 / n_bins``.
    """

    weight_repeated_pairs = False
    needs = "a similarity (cosine)"

    n_bins: int | None = None
    delta: float | None = None

    def __post_init__(self) -> None:
        bins, delta = self.n_bins, self.delta
        if bins is not None and delta is not None and abs(delta * bins - 2) > 1e-6:
            raise BadInput(f"delta {delta} and n_bins {bins} must satisfy delta = 2 / n_bins")
        self.n_bins = self.bins = bins or (round(2 / delta) if delta else 100)

    def terms(self, relations: Relations) -> Terms:
        """One value for the batch."""
        positive, negative = relations.positives, relations.negatives
        has_both = (positive > 0).any(1, keepdim=True) & (negative > 0).any(1, keepdim=True)
        position = ((relations.similarity + 1) * (self.bins / 2)).reshape(1, -1)
        shares = []
        for weights in (positive * has_both, negative * has_both):
            if relations.self_comparison:
                weights = torch.maximum(weights, weights.T).triu(1)
            histogram = soft_histogram(position, weights.reshape(1, -1), self.bins)
            shares.append(histogram / weights.sum().clamp_min(1e-30))
        return Terms((shares[1] * shares[0].cumsum(1)).sum())
