"""Penalties on rows (embeddings or learned weights): rows in, a scalar out."""

from typing import dataclass_transform

import torch
from torch import Tensor, nn

from lookalike.arguments import declare_arguments, shown_arguments
from lookalike.errors import BadInput
from lookalike.ops.rows import (
    in_full_precision,
    normalize_rows,
    products,
    safe_sqrt,
    without_rounding,
)
from lookalike.registry import REGULARIZERS

__all__ = [
    "CenterInvariantRegularizer",
    "CodingRateRegularizer",
    "KoLeoRegularizer",
    "LpRegularizer",
    "RegularFaceRegularizer",
    "Regularizer",
    "SparseCentersRegularizer",
    "ZeroMeanRegularizer",
]


@dataclass_transform(eq_default=False)
class Regularizer(nn.Module):
    """A penalty on rows: embeddings, or a loss's learned weights (one row per class)."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        declare_arguments(cls)

    def extra_repr(self) -> str:
        """The settings."""
        return shown_arguments(self)

    def forward(self, rows: Tensor) -> Tensor:
        """The penalty, a scalar."""
        raise NotImplementedError


@REGULARIZERS.register("l2")
class LpRegularizer(Regularizer):
    """The mean p-norm of the rows, raised to ``power``.

    Args:
        p: The norm.
        power: To which the norm is raised.

    >>> LpRegularizer(power=2)(torch.tensor([[3.0, 4.0], [0.0, 0.0]]))
    tensor(12.5000)
    """

    p: float = 2
    power: float = 1

    def forward(self, rows: Tensor) -> Tensor:
        """``mean |x|_p ^ power``."""
        lengths = torch.linalg.vector_norm(rows, self.p, dim=1)
        raised: Tensor = lengths if self.power == 1 else lengths.pow(self.power)
        return raised.mean()


@REGULARIZERS.register("zero-mean", paper="Yuan et al., CVPR 2019")
class ZeroMeanRegularizer(Regularizer):
    """The mean absolute sum of the components of a row.

    >>> ZeroMeanRegularizer()(torch.tensor([[1.0, -3.0], [1.0, -1.0]]))
    tensor(1.)
    """

    def forward(self, rows: Tensor) -> Tensor:
        """``mean |sum_k x_k|``."""
        return torch.abs(rows.sum(1)).mean()


@REGULARIZERS.register("center-invariant", paper="Wu et al., ACM MM Workshops 2017")
class CenterInvariantRegularizer(Regularizer):
    """A quarter of the variance of the rows' squared lengths."""

    def forward(self, rows: Tensor) -> Tensor:
        """``mean (|w|^2 - mean |w|^2)^2 / 4``."""
        squares = (rows * rows).sum(1)
        return ((squares - squares.mean()) ** 2).mean() / 4


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


@REGULARIZERS.register(
    "koleo", paper="Sablayrolles et al., ICLR 2019", url="https://arxiv.org/abs/1806.03198"
)
class KoLeoRegularizer(Regularizer):
    """Every row away from its nearest one: the Kozachenko-Leonenko estimate of minus the entropy.

    Args:
        eps: What is added to a distance before its logarithm, for rows that are equal.

    >>> KoLeoRegularizer()(torch.tensor([[1.0, 0.0], [0.0, 1.0]]))  # -log sqrt(2)
    tensor(-0.3466)
    """

    eps: float = 1e-8

    def forward(self, rows: Tensor) -> Tensor:
        """``-1/n sum_i log min_(j != i) |x_i - x_j|`` of unit rows; 0 for a single row."""
        if rows.shape[0] < 2:
            return rows.sum() * 0
        x = normalize_rows(in_full_precision(rows))
        nearest = products(x.detach()).fill_diagonal_(-2).argmax(1)
        distance = safe_sqrt((x - x.index_select(0, nearest)).square().sum(1))
        return -(distance + self.eps).log().mean()


@REGULARIZERS.register(
    "coding-rate", paper="Jiang et al., IEEE TMM 2024", url="https://arxiv.org/abs/2407.03106"
)
class CodingRateRegularizer(Regularizer):
    """Minus the coding rate: rows that fill many directions have a high one (Anti-Collapse).

    Args:
        eps: The precision of the code; the paper's eps^2 is 0.5.

    >>> CodingRateRegularizer(eps=1)(torch.eye(2))  # -1/2 log det 2 I
    tensor(-0.6931)
    """

    eps: float = 0.5**0.5

    def forward(self, rows: Tensor) -> Tensor:
        """``-1/2 logdet(I + d / (n eps^2) X' X)`` of n unit rows of d numbers; 0 without rows."""
        number, size = rows.shape
        if number == 0:
            return rows.sum()
        x = normalize_rows(in_full_precision(rows))
        gram = x @ x.T if number < size else x.T @ x  # both have the same determinant
        identity = torch.eye(len(gram), dtype=gram.dtype, device=gram.device)
        factor: Tensor = torch.linalg.cholesky(identity + size / (number * self.eps**2) * gram)
        return -factor.diagonal().log().sum()


@REGULARIZERS.register("sparse-centers", paper="Qian et al., ICCV 2019")
class SparseCentersRegularizer(Regularizer):
    """Distances between the centres of a class, so that centres not needed merge.

    ``sum_c sum_(k < l) sqrt(2 - 2 w_ck.w_cl) / (C K (K - 1))``; rows of a class stand together.

    Args:
        num_classes: How many classes there are.
        centers_per_class: Learned centres per class, in consecutive rows.
    """

    num_classes: int
    centers_per_class: int

    def __post_init__(self) -> None:
        if self.centers_per_class < 2:
            raise BadInput(f"centers_per_class is {self.centers_per_class}; it must be at least 2")

    def forward(self, rows: Tensor) -> Tensor:
        """The penalty, from the inner products within each class only."""
        size = self.centers_per_class
        centres = normalize_rows(rows).view(self.num_classes, size, -1)
        squared = 2 - 2 * centres @ centres.transpose(1, 2)  # each pair twice
        others = ~torch.eye(size, dtype=torch.bool, device=rows.device)
        # merged centres have distance 0, with gradient 0
        distinct = (without_rounding(squared, 2.0, rows.shape[1]) > 0) & others
        distance = squared.where(distinct, 1).sqrt() * distinct
        return distance.sum() / (2 * self.num_classes * size * (size - 1))
