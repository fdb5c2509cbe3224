"""Sums with weights: logarithms of sums of exponents, and histograms with a gradient."""

import torch
from torch import Tensor

__all__ = ["FAR", "log1p_sum_exp", "log_sum_exp", "soft_histogram"]

FAR = -1e30
"""Below every logit; finite, because inf - inf is not a number."""


def log_sum_exp(values: Tensor, weights: Tensor) -> Tensor:
    """``log(sum_j w_j e^(v_j))`` per row; weight 0 leaves a term out.

    A row without terms is ``FAR``, as the log of nothing should be, with gradient 0.

    >>> log_sum_exp(torch.zeros(1, 3), torch.ones(1, 3)).exp().round(decimals=4)
    tensor([3.])
    """
    top, total = _scaled_sums(values, weights)
    return total.clamp_min(torch.finfo(total.dtype).tiny).log() + top


def log1p_sum_exp(values: Tensor, weights: Tensor) -> Tensor:
    """``log(1 + sum_j w_j e^(v_j))`` per row; weight 0 leaves a term out, a row without terms is 0.

    >>> log1p_sum_exp(torch.zeros(1, 3), torch.tensor([[1.0, 0.0, 0.0]])).exp()
    tensor([2.])
    """
    top, total = _scaled_sums(values, weights, least=0)
    return (total + (-top).exp()).log() + top


def _scaled_sums(values: Tensor, weights: Tensor, least: float = FAR) -> tuple[Tensor, Tensor]:
    """The largest exponent of each row, at least ``least``, and ``sum_j w_j e^(v_j - largest)``."""
    values = values.where(weights > 0, FAR)
    top = values.detach().amax(1, keepdim=True).clamp_min(least)
    return top.squeeze(1), (weights * (values - top).exp()).sum(1)


def soft_histogram(position: Tensor, weights: Tensor, bins: int) -> Tensor:
    """Weights [rows, n] summed at the ``bins + 1`` edges, of values from 0 to ``bins``.

    A value is shared by the two nearest edges: one at 2.3 gives 0.7 to edge 2 and 0.3 to edge 3.

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
