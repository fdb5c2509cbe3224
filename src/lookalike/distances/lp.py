"""The p-norm of the difference."""

import torch
from torch import Tensor

from lookalike.distances.base import AdjustableDistance
from lookalike.ops.rows import euclidean
from lookalike.registry import DISTANCES

__all__ = ["LpDistance", "squared_l2"]


@DISTANCES.register("l2")
class LpDistance(AdjustableDistance):
    """The p-norm of the difference (Euclidean for p = 2), raised to ``power``.

    >>> import torch
    >>> LpDistance()(torch.tensor([[2.0, 0.0], [0.0, 3.0]]))
    tensor([[0.0000, 1.4142],
            [1.4142, 0.0000]])
    """

    def matrix(self, query: Tensor, reference: Tensor | None) -> Tensor:
        """``|x - y|_p ^ power``."""
        if self.p != 2:
            rows, others = self.ready(query, reference)
            return self.raised(torch.cdist(rows, rows if others is None else others, self.p))
        squared = self.power == 2
        matrix = euclidean(query, reference, unit_rows=self.normalize_embeddings, squared=squared)
        return matrix if squared else self.raised(matrix)

    def squared_euclidean(self, similarity: Tensor) -> Tensor:
        """``d^2``, for p = 2 and power 1 or 2."""
        if self.p != 2 or self.power not in (1, 2):
            return super().squared_euclidean(similarity)
        return -similarity if self.power == 2 else similarity * similarity


@DISTANCES.register("l2-squared")
def squared_l2() -> LpDistance:
    """Squared Euclidean distances of unit vectors.

    Returns:
        The distance.
    """
    return LpDistance(power=2)
