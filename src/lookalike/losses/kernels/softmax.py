"""Value and gradient of cross-entropy over classes, where every image is of one class."""

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import nll_loss

from lookalike.relations import Relations

__all__ = ["arcface_kernel", "softmax_kernel"]


def softmax_kernel(loss: Any, relations: Relations) -> tuple[Tensor, tuple[Tensor]]:
    """The mean over images; the gradient of the logits is ``softmax - same``."""
    return _cross_entropy(loss.logits(relations), relations, loss.factor())


def arcface_kernel(loss: Any, relations: Relations) -> tuple[Tensor, tuple[Tensor]]:
    """As above; the logit of the right class has the slope ``sin(theta + margin) / sin theta``."""
    assert relations.class_indices is not None
    margin, places = loss.margin * (math.pi / 180), relations.class_indices.unsqueeze(1)
    right = relations.similarity.gather(1, places)
    inside = right.clamp(-1 + 1e-7, 1 - 1e-7)
    angle = inside.acos()
    turned = angle + margin
    near = turned <= math.pi
    harder = turned.cos().where(near, right - margin * math.sin(margin))
    logits = (loss.scale * relations.similarity).scatter_(1, places, harder.mul_(loss.scale))
    value, (gradient,) = _cross_entropy(logits, relations, loss.scale)
    slope = turned.sin_().div_(angle.sin_()).mul_(inside == right).where(near, 1)
    return value, (gradient.scatter_(1, places, slope.mul_(gradient.gather(1, places))),)


def _cross_entropy(
    logits: Tensor, relations: Relations, factor: float
) -> tuple[Tensor, tuple[Tensor]]:
    """The mean over images, and its gradient by the similarities: logits are ``factor`` of them."""
    right = relations.class_indices
    assert right is not None
    logarithms = logits.log_softmax(1)
    value = nll_loss(logarithms, right)
    gradient = torch.softmax(logits, 1, out=logarithms)  # on a CPU faster than its own exp
    return value, (gradient.sub_(relations.same).mul_(factor / logits.shape[0]),)
