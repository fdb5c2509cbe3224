"""A penalty that merges the centres of a class."""

import torch
from torch import Tensor

from lookalike.errors import BadInput
from lookalike.ops.rows import unit, without_rounding
from lookalike.registry import REGULARIZERS
from lookalike.regularizers.base import Regularizer

__all__ = ["SparseCentersRegularizer"]


@REGULARIZERS.register("sparse-centers", paper="Qian et al., ICCV 2019")
class SparseCentersRegularizer(Regularizer):
    """Distances between the centres of a class, so that centres not needed merge.

    ``sum_c sum_(k < l) sqrt(2 - 2 w_ck.w_cl) / (C K (K - 1))``; rows of a class stand together.

    Args:
        num_classes: How many classes there are.
        centers_per_class: Learned centres per class, in consecutive rows.
    """

    def __init__(self, num_classes: int, centers_per_class: int) -> None:
        super().__init__()
        if centers_per_class < 2:
            raise BadInput(f"centers_per_class is {centers_per_class}; it must be at least 2")
        self.num_classes = num_classes
        self.centers_per_class = centers_per_class

    def forward(self, rows: Tensor) -> Tensor:
        """The penalty, from the inner products within each class only."""
        size = self.centers_per_class
        centres = unit(rows).view(self.num_classes, size, -1)
        squared = 2 - 2 * centres @ centres.transpose(1, 2)  # each pair twice
        others = ~torch.eye(size, dtype=torch.bool, device=rows.device)
        # merged centres have distance 0, with gradient 0
        apart = (without_rounding(squared, 2.0, rows.shape[1]) > 0) & others
        distance = squared.where(apart, 1).sqrt() * apart
        return distance.sum() / (2 * self.num_classes * size * (size - 1))
