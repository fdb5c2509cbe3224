"""Value and gradient of cross-entropies over learned class vectors."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from lookalike.ops.soft import NOTHING
from lookalike.relations import Relations

__all__ = ["softmax_kernel"]


def softmax_kernel(
    loss: Any,  # noqa: ARG001
    relations: Relations,
    *,
    scale: float,
    harder: Callable[[Tensor], Tensor] | None = None,
) -> tuple[Tensor, tuple[Tensor]]:
    """Mean of ``-log softmax(scale * s)_y``, s_y made harder; only the right classes are."""
    assert relations.class_indices is not None
    right = relations.class_indices.unsqueeze(1)
    logits = relations.similarity * scale
    change = None
    if harder is not None:
        with torch.enable_grad():
            near = relations.similarity.gather(1, right).requires_grad_()
            value = harder(near)
            (change,) = torch.autograd.grad(value.sum(), near)
        logits.scatter_(1, right, value.detach() * scale)
    log_chance = logits.log_softmax(1)
    of_right = log_chance.gather(1, right)
    pull = of_right.expm1()
    if change is not None:
        pull.mul_(change)
    chance = log_chance.clamp_min_(NOTHING).exp_().scatter_(1, right, pull)
    return of_right.mean().neg_(), (chance.mul_(scale / len(chance)),)
