"""Logarithms of sums of exponents, with weights."""

import torch
from torch import Tensor

__all__ = ["FAR", "log1p_sum_exp", "log_sum_exp"]

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
