"""A penalty on length."""

import torch
from torch import Tensor

from lookalike.registry import REGULARIZERS
from lookalike.regularizers.base import Regularizer

__all__ = ["LpRegularizer"]


@REGULARIZERS.register("l2")
class LpRegularizer(Regularizer):
    """The mean p-norm of the rows, raised to ``power``.

    Args:
        p: The norm.
        power: To which the norm is raised.

    >>> LpRegularizer(power=2)(torch.tensor([[3.0, 4.0], [0.0, 0.0]]))
    tensor(12.5000)
    """

    def __init__(self, p: float = 2, power: float = 1) -> None:
        super().__init__()
        self.p = p
        self.power = power

    def forward(self, rows: Tensor) -> Tensor:
        """``mean |x|_p ^ power``."""
        lengths = torch.linalg.vector_norm(rows, self.p, dim=1)
        raised: Tensor = lengths if self.power == 1 else lengths.pow(self.power)
        return raised.mean()
