"""The SoftTriple loss: several centres a class."""

import math
from functools import partial

import torch
from torch import Tensor, nn

from lookalike.losses.proxies import ProxyLoss
from lookalike.losses.softmax import cosface
from lookalike.reducers import Terms
from lookalike.registry import LOSSES
from lookalike.regularizers.penalties import SparseCentersRegularizer
from lookalike.relations import Relations

__all__ = ["SoftTripleLoss"]


def soft_maximum(centres: Tensor, gamma: float) -> Tensor:
    """``S_c = sum_k softmax_k(s_ck / gamma) s_ck`` of similarities [N, centres, classes]."""
    return ((centres / gamma).softmax(1) * centres).sum(1)


@LOSSES.register(
    "soft-triple", paper="Qian et al., ICCV 2019", url="https://arxiv.org/abs/1909.05235"
)
class SoftTripleLoss(ProxyLoss):
    """Softmax over classes, each class the soft maximum of several learned centres.

    ``S_c = sum_k softmax_k(s_ck / gamma) s_ck``; cross-entropy of ``la (S_c - margin [c = y])``.
    ``tau`` adds the paper's penalty on the distances of the centres of a class, so that centres
    not needed merge. ``gamma`` divides, as in PML 2; the paper and the tuned tables give its
    inverse (10 is 0.1 here).

    Args:
        centers_per_class: Learned centres per class.
        la: The scale of the similarities.
        gamma: The temperature of the soft maximum over centres.
        margin: Taken off the similarity to the right class.
        tau: The weight of the penalty on distances between centres.
    """

    columns = "fc"
    default_init = partial(nn.init.kaiming_uniform_, a=math.sqrt(5))
    needs = "a similarity (cosine)"

    centers_per_class: int = 10
    la: float = 20
    gamma: float = 0.1
    margin: float = 0.01
    tau: float = 0

    def __post_init__(self) -> None:
        vectors = self.num_classes, self.centers_per_class
        if self.tau and self.weight_regularizer is None:
            self.weight_regularizer = SparseCentersRegularizer(*vectors)
            self.weight_reg_weight = self.tau
        super().__post_init__()

    def vectors_per_class(self) -> int:
        """``centers_per_class``."""
        return self.centers_per_class

    def vectors_of(self, classes: Tensor | None) -> Tensor:
        """The k-th centres of all classes side by side: a softmax over k then runs along them."""
        size = self.embedding_size, self.num_classes, self.centers_per_class
        columns: Tensor = getattr(self, self.columns)
        centres = columns.view(size)
        if classes is not None:
            centres = centres.index_select(1, classes)
        return centres.permute(2, 1, 0).reshape(-1, self.embedding_size)

    def similarities(self, embeddings: Tensor, classes: Tensor | None = None) -> Tensor:
        """The soft maximum over the centres of each class."""
        cosines = super().similarities(embeddings, classes)
        centres = torch.unflatten(cosines, 1, (self.centers_per_class, -1))
        return soft_maximum(centres, self.gamma)

    def logit_scale(self) -> float:
        """``la``."""
        return self.la

    def terms(self, relations: Relations) -> Terms:
        """One value per image."""
        return Terms(cosface(relations, self.margin, self.la))
