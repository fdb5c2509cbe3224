"""P2SGrad: squared errors of the cosines to learned class vectors."""

from typing import Any

import torch
from torch import Tensor, nn

from lookalike.losses.base import ProxyLoss, Terms
from lookalike.relations import Relations

__all__ = ["P2SGradLoss"]


class P2SGradLoss(ProxyLoss):
    """The cosine to the right class 1, to all others 0.

    ``1/C sum_c (cos theta_c - [c = y])^2``, mean over images (Zhang et al., CVPR 2019). There is no
    margin and no scale to choose.

    Args:
        descriptors_dim: The dimension of the embeddings.
        num_classes: How many classes there are.
        **options: Those of every loss with learned vectors.
    """

    needs = "the cosine"

    def __init__(self, descriptors_dim: int, num_classes: int, **options: Any) -> None:
        super().__init__(num_classes=num_classes, embedding_size=descriptors_dim, **options)
        self.descriptors_dim = descriptors_dim
        self.weight = self.learned(descriptors_dim, num_classes, start=_unit_columns)

    def class_vectors(self) -> Tensor:
        """The columns of ``weight``."""
        return self.weight.T

    def terms(self, relations: Relations) -> Terms:
        """The formula, one value per image."""
        return Terms((relations.similarity - relations.same).square().mean(1))


def _unit_columns(weight: Tensor) -> None:
    """Random columns of length 1."""
    nn.init.uniform_(weight, -1, 1)
    weight.div_(torch.linalg.vector_norm(weight, dim=0, keepdim=True))
