"""Heads that start from the data: principal components, or discriminants of the classes."""

import torch
from torch import Tensor

from lookalike.errors import BadInput

__all__ = ["Discriminants", "lda", "pca"]


def pca(features: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """Weight [dim, width] and bias [dim] of the projection on the first principal components.

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
    """
    return Discriminants(features, labels).shrunk(dim, shrink)


class Discriminants:
    """Linear discriminants of some classes; what does not depend on ``shrink`` is done once."""

    def __init__(self, features: Tensor, labels: Tensor) -> None:
        self.rows = features.double()
        self.mean = self.rows.mean(0)
        classes = torch.unique(labels, return_inverse=True)[1]
        sums = self.rows.new_zeros(int(classes.max()) + 1, self.rows.shape[1])
        means = sums.index_add_(0, classes, self.rows) / classes.bincount()[:, None]
        within = covariance(self.rows - means[classes])
        self.total = covariance(self.rows - self.mean)
        # the spread of all stands in where classes have none of their own
        spread = (self.rows - self.mean).square().mean()
        self.level = within.diagonal().mean().clamp_min(1e-9 * spread + 1e-30)
        self.values, self.vectors = torch.linalg.eigh(within)

    def shrunk(self, dim: int, shrink: float) -> tuple[Tensor, Tensor]:
        """Weight [dim, width] and bias [dim], as of :func:`lda`."""
        refuse_too_many(self.rows, dim)
        values = (self.values + shrink * self.level).clamp_min(self.level * 1e-9)
        whiten = self.vectors * values.rsqrt() @ self.vectors.T
        directions = largest(whiten @ self.total @ whiten, dim)
        return projection(directions.T @ whiten, self.mean)


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
    """There are no more directions than features."""
    if dim > rows.shape[1]:
        raise BadInput(
            f"model.dim = {dim} is more than the {rows.shape[1]} features of the network"
        )
