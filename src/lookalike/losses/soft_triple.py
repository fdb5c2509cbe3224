"""The SoftTriple loss: several centres a class."""

import math
from typing import Any, Unpack

import torch
from torch import Tensor, nn

from lookalike.errors import BadInput
from lookalike.geometry import blocks_of_rows, first_order_only
from lookalike.losses.base import ProxyOptions
from lookalike.losses.softmax import SoftmaxLoss, lowered
from lookalike.registry import LOSSES
from lookalike.regularizers.sparse_centers import SparseCentersRegularizer

__all__ = ["SoftTripleLoss"]


class _SoftMaximum(torch.autograd.Function):
    """``sum_k softmax_k(s_k / gamma) s_k``; only the slopes are kept for the way back."""

    @staticmethod
    def forward(ctx: Any, found: Tensor, gamma: float) -> Tensor:
        summed = found.new_empty(found.shape[0], found.shape[2])
        slope = torch.empty_like(found)
        for rows in blocks_of_rows(found.shape[0], found[0].numel()):
            part = found[rows]
            chance = (part / gamma).softmax(1)
            torch.sum(chance * part, 1, out=summed[rows])
            above = torch.sub(part, summed[rows].unsqueeze(1), out=slope[rows])
            above.div_(gamma).add_(1).mul_(chance)
        ctx.save_for_backward(slope)
        return summed

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        first_order_only()
        (slope,) = ctx.saved_tensors
        return slope * gradient.unsqueeze(1), None


@LOSSES.register("soft-triple", paper="Qian et al., ICCV 2019")
class SoftTripleLoss(SoftmaxLoss):
    """Softmax over classes, each class the soft maximum of several learned centres.

    ``S_c = sum_k softmax_k(s_ck / gamma) s_ck``; cross-entropy of ``la (S_c - margin [c = y])``.
    ``tau`` adds the paper's penalty on the distances of the centres of a class, so that centres
    not needed merge. ``gamma`` divides, as in PML 2; the paper and the tuned tables give its
    inverse (10 is 0.1 here).
    """

    def __init__(
        self,
        num_classes: int,
        embedding_size: int,
        centers_per_class: int = 10,
        la: float = 20,
        gamma: float = 0.1,
        margin: float = 0.01,
        tau: float = 0,
        **options: Unpack[ProxyOptions],
    ) -> None:
        if tau and options.get("weight_regularizer") is None:
            options["weight_regularizer"] = SparseCentersRegularizer(num_classes, centers_per_class)
            options["weight_reg_weight"] = tau
        super().__init__(num_classes, embedding_size, **options)
        if not self.distance.is_inverted:
            raise BadInput("SoftTriple needs a similarity (cosine)")
        self.centers_per_class = centers_per_class
        self.la = self.scale = la
        self.gamma = gamma
        self.margin = margin
        self.fc = self.learned(
            embedding_size,
            num_classes * centers_per_class,
            start=lambda rows: nn.init.kaiming_uniform_(rows, a=math.sqrt(5)),
        )

    def class_vectors(self) -> Tensor:
        """The centres, those of a class in a row."""
        return self.fc.T

    def similarities(self, embeddings: Tensor) -> Tensor:
        """The soft maximum over the centres of each class."""
        rows = self.rows(embeddings)
        # the k-th centres of all classes side by side: a softmax over k then runs along classes
        centres = self.fc.view(self.embedding_size, self.num_classes, self.centers_per_class)
        centres = centres.permute(2, 1, 0).reshape(-1, self.embedding_size).to(rows.dtype)
        found = self.distance.similarity(rows, centres)
        found = found.view(-1, self.centers_per_class, self.num_classes)
        summed: Tensor = _SoftMaximum.apply(found, self.gamma)
        return summed

    def harder(self, similarity: Tensor) -> tuple[Tensor, Tensor]:
        """``S_c - margin``."""
        return lowered(similarity, self.margin)
