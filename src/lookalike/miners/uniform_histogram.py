"""Pairs evenly spread over their distances."""

import torch
from torch import Tensor

from lookalike.miners.base import Miner
from lookalike.registry import MINERS
from lookalike.relations import Relations

__all__ = ["UniformHistogramMiner"]


@MINERS.register("uniform-histogram")
class UniformHistogramMiner(Miner):
    """As many random pairs from every bin of the histogram of distances.

    The range of the positives' distances is cut into ``num_bins`` bins of equal width, and that of
    the negatives; of each bin that is not empty so many pairs are drawn, with replacement.

    Args:
        num_bins: Bins of each histogram.
        pos_per_bin: Positive pairs drawn from each bin.
        neg_per_bin: Negative pairs drawn from each bin.
    """

    num_bins: int = 100
    pos_per_bin: int = 10
    neg_per_bin: int = 10

    def mine(self, relations: Relations) -> Relations:
        """Both kinds of pairs, each as often as it was drawn."""
        r = relations
        return r.only(
            self._drawn(r.similarity, r.positives > 0, self.pos_per_bin),
            self._drawn(r.similarity, r.negatives > 0, self.neg_per_bin),
        )

    def _drawn(self, similarity: Tensor, pairs: Tensor, number: int) -> Tensor:
        """How often each pair is drawn, [anchors, candidates]."""
        least = similarity.where(pairs, torch.inf).amin()
        most = similarity.where(pairs, -torch.inf).amax()
        width = ((most - least) / self.num_bins).clamp_min(torch.finfo(similarity.dtype).tiny)
        bins = ((similarity - least) / width).floor().clamp(0, self.num_bins - 1)
        bins = bins.where(pairs, self.num_bins).long().flatten()
        # pairs in random order inside each bin; the sums tell where a bin begins
        order = (bins + torch.rand_like(similarity).flatten().double()).argsort()
        size = torch.zeros(self.num_bins + 1, dtype=torch.long, device=bins.device)
        size = size.index_add_(0, bins, torch.ones_like(bins))[: self.num_bins]
        start = size.cumsum(0) - size
        drawn = torch.rand(self.num_bins, number, dtype=torch.float64, device=size.device)
        position = (start.unsqueeze(1) + (drawn * size.unsqueeze(1)).long()).flatten()
        times = (size > 0).to(similarity.dtype).repeat_interleave(number)
        pair = order[position.clamp_max(bins.numel() - 1)]
        counts = similarity.new_zeros(bins.numel()).index_add_(0, pair, times)
        return counts.view_as(similarity)
