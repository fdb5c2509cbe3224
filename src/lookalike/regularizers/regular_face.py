"""A penalty on class vectors that are near each other."""

from torch import Tensor

from lookalike.ops.rows import products
from lookalike.registry import REGULARIZERS
from lookalike.regularizers.base import Regularizer

__all__ = ["RegularFaceRegularizer"]


@REGULARIZERS.register("regular-face", paper="Zhao et al., CVPR 2019")
class RegularFaceRegularizer(Regularizer):
    """The mean cosine of each row to the row nearest to it."""

    def forward(self, rows: Tensor) -> Tensor:
        """``mean_i max_(j != i) cos(w_i, w_j)``; 0 for a single row."""
        if rows.shape[0] < 2:
            return rows.sum() * 0
        cosine = products(rows, unit_rows=True)
        nearest = cosine.detach().clone().fill_diagonal_(-2).argmax(1, keepdim=True)
        return cosine.gather(1, nearest).mean()
