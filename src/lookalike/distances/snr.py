"""The signal-to-noise ratio."""

import torch
from torch import Tensor

from lookalike.distances.base import AdjustableDistance, raised, ready
from lookalike.ops.rows import euclidean

__all__ = ["SNRDistance"]


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
        return raised(self._signed(query, reference, 1), self.power)

    def similarity(self, query: Tensor, reference: Tensor | None = None) -> Tensor:
        """Minus the distance."""
        if self.power == 1:
            return self._signed(query, reference, -1)
        return super().similarity(query, reference)

    def _signed(self, query: Tensor, reference: Tensor | None, sign: float) -> Tensor:
        rows, others = ready(self, query, reference)
        rows = rows - rows.mean(1, keepdim=True)
        if others is not None:
            others = others - others.mean(1, keepdim=True)
        signal = (rows * rows).sum(1, keepdim=True)
        some = signal > torch.finfo(signal.dtype).tiny
        return euclidean(rows, others, squared=True, sign=sign) * (some / signal.where(some, 1))

    def pairwise_distance(self, query_emb: Tensor, ref_emb: Tensor) -> Tensor:
        """``var(x - y) / var(x)`` of each pair of rows."""
        return (query_emb - ref_emb).var(1) / query_emb.var(1)
