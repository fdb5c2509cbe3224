"""The p-norm of the difference."""

import torch
from torch import Tensor
from torch.nn.functional import pairwise_distance

from lookalike.distances.base import AdjustableDistance, raised, ready
from lookalike.ops.rows import euclidean

__all__ = ["LpDistance"]


class LpDistance(AdjustableDistance):
    """The p-norm of the difference (Euclidean for p = 2), raised to ``power``.

    >>> import torch
    >>> LpDistance()(torch.tensor([[2.0, 0.0], [0.0, 3.0]]))
    tensor([[0.0000, 1.4142],
            [1.4142, 0.0000]])
    """

    def matrix(self, query: Tensor, reference: Tensor | None) -> Tensor:
        """``|x - y|_p ^ power``."""
        return self._signed(query, reference, 1)

    def similarity(self, query: Tensor, reference: Tensor | None = None) -> Tensor:
        """Minus the distance."""
        if self.p == 2 and self.power in (1, 2):
            return self._signed(query, reference, -1)
        return super().similarity(query, reference)

    def _signed(self, query: Tensor, reference: Tensor | None, sign: float) -> Tensor:
        if self.p != 2:
            rows, others = ready(self, query, reference)
            return raised(torch.cdist(rows, rows if others is None else others, self.p), self.power)
        squared = self.power == 2
        matrix = euclidean(
            query, reference, unit_rows=self.normalize_embeddings, squared=squared, sign=sign
        )
        return matrix if squared else raised(matrix, self.power)

    def squared_euclidean(self, similarity: Tensor) -> Tensor:
        """``d^2``, for p = 2 and power 1 or 2."""
        if self.p != 2 or self.power not in (1, 2):
            return super().squared_euclidean(similarity)
        return -similarity if self.power == 2 else similarity * similarity

    def pairwise_distance(self, query_emb: Tensor, ref_emb: Tensor) -> Tensor:
        """``|x - y|_p`` of each pair of rows."""
        return pairwise_distance(query_emb, ref_emb, p=self.p)
