"""The signal-to-noise ratio."""

import torch
from torch import Tensor

from lookalike.distances.base import AdjustableDistance
from lookalike.ops.rows import euclidean
from lookalike.registry import DISTANCES

__all__ = ["SNRDistance"]


@DISTANCES.register("snr", paper="Yuan et al., CVPR 2019")
class SNRDistance(AdjustableDistance):
    """The variance of the difference over the variance of the anchor (Yuan et al., CVPR 2019).

    ``var(x - y) / var(x)`` over the components. An anchor without variance has distance 0 to all.
    """

    symmetric = False

    @property
    def ordered_by_cosine(self) -> bool:
        """False: the components are centred first."""
        return False

    def matrix(self, query: Tensor, reference: Tensor | None) -> Tensor:
        """From inner products of centred rows; nothing of size N x N x D."""
        rows, others = self.ready(query, reference)
        rows = rows - rows.mean(1, keepdim=True)
        if others is not None:
            others = others - others.mean(1, keepdim=True)
        signal = (rows * rows).sum(1, keepdim=True)
        some = signal > torch.finfo(signal.dtype).tiny
        return self.raised(euclidean(rows, others, squared=True) * (some / signal.where(some, 1)))
