"""Value and gradient of the supervised contrastive loss."""

from typing import Any

import torch
from torch import Tensor

from lookalike.ops.soft import soft_terms
from lookalike.relations import Relations

__all__ = ["supcon_kernel"]


def supcon_kernel(loss: Any, relations: Relations) -> tuple[Tensor, tuple[Tensor]]:
    """The mean over the anchors above zero."""
    scale = 1 / loss.temperature
    similarity = relations.similarity
    total, share = soft_terms(similarity, relations.valid, scale=scale)
    number = relations.positive_counts.sum(1, keepdim=True)
    chosen = relations.positives / number.clamp_min_(1e-30)
    label = chosen.sum(1, keepdim=True)  # 1 for an anchor with positives, unless mixed
    mean = torch.bmm(similarity.unsqueeze(1), chosen.unsqueeze(2)).squeeze(2)
    losses = total.mul_(label).sub_(mean.mul_(scale)).relu_()
    counted = losses.sign()
    count = counted.sum().clamp_min_(1)
    gradient = share.mul_(label).sub_(chosen).mul_(counted.mul_(scale).div_(count))
    return losses.sum() / count, (gradient,)
