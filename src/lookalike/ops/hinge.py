"""Terms that are cut off below zero, counted and added up without truth values.

On the CPU, comparing into floats is several times faster than comparing into truth values.
"""

import torch
from torch import Tensor

__all__ = ["above", "below", "step", "violations"]


def above(values: Tensor, bound: Tensor | float) -> Tensor:
    """1 where a value is larger than the bound, 0 elsewhere, as numbers; without gradient."""
    return torch.gt(values, bound, out=torch.empty_like(values))


def below(values: Tensor, bound: Tensor | float) -> Tensor:
    """1 where a value is less than the bound, 0 elsewhere, as numbers; without gradient."""
    return torch.lt(values, bound, out=torch.empty_like(values))


def step(values: Tensor) -> Tensor:
    """1 above zero, 0 elsewhere, as numbers; NaN stays NaN. Overwrites ``values``."""
    return values.mul_(torch.finfo(values.dtype).max).clamp_(0, 1)


def violations(
    values: Tensor, weights: Tensor, counts: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Of the values above zero: their weighted sum, their weights, and how many they are.

    ``counts`` says how often each value counts; None is its weight. Overwrites ``values``.
    """
    above = values.relu_().sign()
    number = None if counts is None else torch.dot(above.view(-1), counts.reshape(-1))
    weighed = above.mul_(weights)
    total = torch.dot(values.view(-1), weighed.view(-1))
    return total, weighed, weighed.sum() if number is None else number
