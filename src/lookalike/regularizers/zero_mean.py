"""A penalty on sums."""

import torch
from torch import Tensor

from lookalike.registry import REGULARIZERS
from lookalike.regularizers.base import Regularizer

__all__ = ["ZeroMeanRegularizer"]


@REGULARIZERS.register("zero-mean", paper="Yuan et al., CVPR 2019")
class ZeroMeanRegularizer(Regularizer):
    """The mean absolute sum of the components of a row.

    >>> ZeroMeanRegularizer()(torch.tensor([[1.0, -3.0], [1.0, -1.0]]))
    tensor(1.)
    """

    def forward(self, rows: Tensor) -> Tensor:
        """``mean |sum_k x_k|``."""
        return torch.abs(rows.sum(1)).mean()
