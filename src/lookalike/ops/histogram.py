"""Histograms with a gradient: each value is shared by the two nearest bin edges."""

from torch import Tensor

__all__ = ["soft_histogram"]


def soft_histogram(position: Tensor, weights: Tensor, bins: int) -> Tensor:
    """Weights [rows, n] summed at the ``bins + 1`` edges, of values from 0 to ``bins``.

    A value at 2.3 gives 0.7 to edge 2 and 0.3 to edge 3.

    >>> import torch
    >>> soft_histogram(torch.tensor([[2.25]]), torch.ones(1, 1), 3)
    tensor([[0.0000, 0.0000, 0.7500, 0.2500]])
    """
    inside = position.clamp(0, bins)
    left = inside.detach().floor().clamp_max(bins - 1)
    of_right = (inside - left) * weights
    edge = left.long()
    histogram = weights.new_zeros(weights.shape[0], bins + 1)
    histogram = histogram.scatter_add(1, edge, weights - of_right)
    return histogram.scatter_add(1, edge + 1, of_right)
