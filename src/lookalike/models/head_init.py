"""Initial heads from the data: principal components, or linear discriminants of the classes."""

import math

import torch
from torch import Tensor

from lookalike.errors import BadInput
from lookalike.evaluation import evaluate

SHRINKS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
"""The candidates of :func:`choose_shrink`."""


def pca(features: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """The projection on the first principal components.

    Args:
        features: Rows [N, width].
        dim: How many components.

    Returns:
        Weight [dim, width] and bias [dim] of a linear layer.

    >>> weight, bias = pca(torch.eye(4), 2)
    >>> weight.shape, bias.shape
    (torch.Size([2, 4]), torch.Size([2]))
    """
    rows = features.double()
    refuse_too_many(rows, dim)
    mean = rows.mean(0)
    return projection(largest(covariance(rows - mean), dim).T, mean)


def lda(features: Tensor, labels: Tensor, dim: int, shrink: float) -> tuple[Tensor, Tensor]:
    """Shrunk linear discriminants: whiten within classes, then principal components.

    The within-class covariance S_w is made S_w + ``shrink`` mean(diag S_w) I before its inverse
    root whitens the centred features; the first ``dim`` components of the result are kept.

    Args:
        features: Rows [N, width].
        labels: The class of each row.
        dim: How many components.
        shrink: The shrinkage.

    Returns:
        Weight [dim, width] and bias [dim] of a linear layer.
    """
    return Discriminants(features, labels).shrunk(dim, shrink)


class Discriminants:
    """Linear discriminants for several values of ``shrink``; the common part is computed once.

    Args:
        features: Rows [N, width].
        labels: The class of each row.
    """

    def __init__(self, features: Tensor, labels: Tensor) -> None:
        self.rows = features.double()
        self.mean = self.rows.mean(0)
        classes = torch.unique(labels, return_inverse=True)[1]
        sums = self.rows.new_zeros(int(classes.max()) + 1, self.rows.shape[1])
        means = sums.index_add_(0, classes, self.rows) / classes.bincount()[:, None]
        inside = self.rows - means[classes]
        # where classes have no variance, that of all features is used
        spread = (self.rows - self.mean).square().mean()
        level = inside.square().sum() / max(len(inside) - 1, 1) / inside.shape[1]
        self.level = level.clamp_min(1e-9 * spread + 1e-30)
        self.values, self.vectors = principal_axes(inside)

    def shrunk(self, dim: int, shrink: float) -> tuple[Tensor, Tensor]:
        """Weight [dim, width] and bias [dim], as :func:`lda` returns them."""
        refuse_too_many(self.rows, dim)
        whiten = self.whiten(torch.eye(self.rows.shape[1]).to(self.rows), shrink)
        total = covariance(self.rows - self.mean)
        directions = largest(whiten @ total @ whiten, dim)
        return projection(directions.T @ whiten, self.mean)

    def whitened(self, features: Tensor, shrink: float) -> Tensor:
        """Features of any images, centred and whitened, without a reduction of dimensions."""
        return self.whiten(features.double() - self.mean, shrink)

    def whiten(self, centred: Tensor, shrink: float) -> Tensor:
        """``centred (S_w + shrink mean(diag S_w) I)^(-1/2)``.

        Directions that ``vectors`` do not span have no variance but the shrinkage.
        """
        values = (self.values + shrink * self.level).clamp_min(self.level * 1e-9).rsqrt()
        other = (shrink * self.level).clamp_min(self.level * 1e-9).rsqrt()
        rows: Tensor = centred * other + centred @ self.vectors * (values - other) @ self.vectors.T
        return rows


def principal_axes(centred: Tensor) -> tuple[Tensor, Tensor]:
    """Eigenvalues and eigenvectors [width, count] of the covariance; zero ones may be missing.

    With fewer rows than columns, X X' has the same nonzero eigenvalues as X'X and is smaller.
    """
    if len(centred) >= centred.shape[1]:
        values, vectors = torch.linalg.eigh(covariance(centred))
        return values, vectors
    freedom = max(len(centred) - 1, 1)
    values, rows = torch.linalg.eigh(centred @ centred.T / freedom)
    kept = values > values[-1] * 1e-10
    return values[kept], centred.T @ rows[:, kept] * (values[kept] * freedom).rsqrt()


def choose_shrink(
    features: Tensor, labels: Tensor, *, metric: str = "map@r", repeats: int = 3
) -> float:
    """The shrinkage of :func:`lda` with the best score on unseen classes.

    The classes are split into two random halves, ``repeats`` times. Discriminants of either half,
    whitened with each of ``SHRINKS``, are scored on the other half; the mean score decides. With
    fewer than four classes of at least two images there is nothing to compare, and the result is
    infinity, which stands for :func:`pca`.

    Args:
        features: The features [N, width] of the training images.
        labels: Their classes [N].
        metric: The score, such as ``map@r`` or ``recall@1``.
        repeats: How often the classes are split.

    Returns:
        One of ``SHRINKS``, or infinity.

    Example:
        >>> draw = torch.Generator().manual_seed(0)
        >>> labels = torch.arange(6).repeat_interleave(5)
        >>> choose_shrink(torch.randn(30, 4, generator=draw), labels) in SHRINKS
        True
    """
    _, classes, counts = torch.unique(labels, return_inverse=True, return_counts=True)
    comparable = torch.nonzero(counts >= 2).flatten()
    if len(comparable) < 4:
        return math.inf
    draw = torch.Generator().manual_seed(0)
    totals = torch.zeros(len(SHRINKS), dtype=torch.float64)
    for _ in range(repeats):
        drawn = comparable[torch.randperm(len(comparable), generator=draw)]
        for half in (drawn[: len(drawn) // 2], drawn[len(drawn) // 2 :]):
            unseen = torch.isin(classes, half)
            seen = Discriminants(features[~unseen], classes[~unseen])
            for number, shrink in enumerate(SHRINKS):
                rows = seen.whitened(features[unseen], shrink)
                rows = torch.nn.functional.normalize(rows).float()
                totals[number] += evaluate(rows, classes[unseen], metrics=(metric,))[metric]
    return SHRINKS[int(totals.argmax())]


def covariance(centred: Tensor) -> Tensor:
    """X'X / (n - 1)."""
    return centred.T @ centred / max(len(centred) - 1, 1)


def largest(matrix: Tensor, dim: int) -> Tensor:
    """The eigenvectors [width, dim] of the largest eigenvalues, largest first."""
    vectors: Tensor = torch.linalg.eigh(matrix)[1]
    return vectors.flip(1)[:, :dim]


def projection(weight: Tensor, mean: Tensor) -> tuple[Tensor, Tensor]:
    """X -> weight (x - mean) as weight and bias."""
    return weight.float(), -(weight @ mean).float()


def refuse_too_many(rows: Tensor, dim: int) -> None:
    """Refuse more components than there are features."""
    if dim > rows.shape[1]:
        raise BadInput(
            f"model.dim = {dim} is more than the {rows.shape[1]} features of the network"
        )
