"""A penalty on class vectors of unequal length."""

from torch import Tensor

from lookalike.registry import REGULARIZERS
from lookalike.regularizers.base import Regularizer

__all__ = ["CenterInvariantRegularizer"]


@REGULARIZERS.register("center-invariant", paper="Wu et al., ACM MM Workshops 2017")
class CenterInvariantRegularizer(Regularizer):
    """A quarter of the variance of the rows' squared lengths."""

    def forward(self, rows: Tensor) -> Tensor:
        """``mean (|w|^2 - mean |w|^2)^2 / 4``."""
        squares = (rows * rows).sum(1)
        return ((squares - squares.mean()) ** 2).mean() / 4
