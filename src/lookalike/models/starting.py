"""Heads that start from the data: principal components, or discriminants of the classes."""

import torch
from torch import Tensor

from lookalike.errors import BadInput

__all__ = ["lda", "pca"]


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
    rows = features.double()
    refuse_too_many(rows, dim)
    mean = rows.mean(0)
    classes = torch.unique(labels, return_inverse=True)[1]
    sums = rows.new_zeros(int(classes.max()) + 1, rows.shape[1]).index_add_(0, classes, rows)
    means = sums / classes.bincount()[:, None]
    within = covariance(rows - means[classes])
    spread = (rows - mean).square().mean()  # stands in where classes have no spread of their own
    level = within.diagonal().mean().clamp_min(1e-9 * spread + 1e-30)
    values, vectors = torch.linalg.eigh(within + shrink * level * torch.eye(len(within)).double())
    whiten = vectors * values.clamp_min(level * 1e-9).rsqrt() @ vectors.T
    directions = largest(covariance((rows - mean) @ whiten), dim)
    return projection(directions.T @ whiten, mean)


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
