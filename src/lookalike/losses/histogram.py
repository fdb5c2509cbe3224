"""The histogram loss."""

import torch
from torch import Tensor

from lookalike.errors import BadInput
from lookalike.losses.base import PairLoss, Terms
from lookalike.miners.mined import distinct_pairs
from lookalike.ops.sums import soft_histogram
from lookalike.registry import LOSSES
from lookalike.relations import Relations

__all__ = ["HistogramLoss"]


def reverse_probability(r: Relations, bins: int) -> Tensor:
    """``sum_r h^-_r sum_(q <= r) h^+_q``: the chance that a negative is nearer than a positive."""
    has_both = (r.positives > 0).any(1, keepdim=True) & (r.negatives > 0).any(1, keepdim=True)
    position = ((r.similarity + 1) * (bins / 2)).reshape(1, -1)

    def histogram(weights: Tensor) -> Tensor:
        weights = weights * has_both
        if r.self_comparison:
            weights = torch.maximum(weights, weights.T).triu(1)  # a pair in both directions is one
        return soft_histogram(position, weights.reshape(1, -1), bins) / weights.sum().clamp_min(
            1e-30
        )

    return (histogram(r.negatives) * histogram(r.positives).cumsum(1)).sum()


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

    from_miner = distinct_pairs
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
        return Terms(reverse_probability(relations, self.bins))
