"""Inner products: the cosine, and the dot product."""

from torch import Tensor

from lookalike.distances.base import AdjustableDistance, Distance
from lookalike.ops.rows import products, without_rounding
from lookalike.registry import DISTANCES

__all__ = ["CosineSimilarity", "DotProductSimilarity"]


def _squared_from_cosine(cosine: Tensor) -> Tensor:
    """``2 - 2 s``; 0 where that is no more than rounding, in up to 4,096 dimensions."""
    return without_rounding(2 - 2 * cosine, 2.0, 4096)


@DISTANCES.register("cosine")
class CosineSimilarity(Distance):
    """The cosine of the angle between two embeddings.

    >>> import torch
    >>> CosineSimilarity()(torch.tensor([[2.0, 0.0], [0.0, 3.0]]))
    tensor([[1., 0.],
            [0., 1.]])
    """

    is_inverted = True

    def matrix(self, query: Tensor, reference: Tensor | None) -> Tensor:
        """``x.y / |x| |y|``."""
        return products(query, reference, unit_rows=True)

    def squared_euclidean(self, similarity: Tensor) -> Tensor:
        """``2 - 2 s``."""
        return _squared_from_cosine(similarity)


class DotProductSimilarity(AdjustableDistance):
    """The inner product, of unit vectors unless ``normalize_embeddings=False``."""

    is_inverted = True

    @property
    def ordered_by_cosine(self) -> bool:
        """True for unit vectors, unless an even power folds the negative side over."""
        return super().ordered_by_cosine and self.power == 1

    def matrix(self, query: Tensor, reference: Tensor | None) -> Tensor:
        """``x.y``."""
        return self.raised(products(*self.ready(query, reference)))

    def squared_euclidean(self, similarity: Tensor) -> Tensor:
        """``2 - 2 s`` of unit vectors."""
        if not self.ordered_by_cosine:
            return super().squared_euclidean(similarity)
        return _squared_from_cosine(similarity)


@DISTANCES.register("dot")
def dot_product() -> DotProductSimilarity:
    """The inner product of the rows as they are."""
    return DotProductSimilarity(normalize_embeddings=False)
