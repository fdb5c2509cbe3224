"""Value and gradient of cross-entropy over classes, where every image is of one class."""

from typing import Any

from torch import Tensor
from torch.nn.functional import nll_loss

from lookalike.relations import Relations

__all__ = ["softmax_kernel"]


def softmax_kernel(loss: Any, relations: Relations) -> tuple[Tensor, tuple[Tensor]]:
    """The mean over images; the gradient of the logits is ``softmax - same``."""
    right = relations.class_indices
    assert right is not None
    logarithms = loss.logits(relations).log_softmax(1)
    value = nll_loss(logarithms, right)
    gradient = logarithms.exp_().sub_(relations.same)
    gradient.mul_(loss.factor() / relations.similarity.shape[0])
    slope = loss.slope(relations)
    if slope is not None:
        places = right.unsqueeze(1)
        gradient.scatter_(1, places, slope.mul_(gradient.gather(1, places)))
    return value, (gradient,)
