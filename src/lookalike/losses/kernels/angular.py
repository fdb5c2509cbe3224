"""Value and gradient of the angular loss where positive pairs are few."""

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import softplus

from lookalike.ops.pairs import at_places, listed_pairs
from lookalike.ops.triplets import block_rows
from lookalike.relations import Relations

__all__ = ["angular_kernel"]


def angular_kernel(loss: Any, relations: Relations) -> tuple[Tensor, tuple[Tensor, ...]]:
    """The mean over positive pairs: only the rows that they need, in blocks."""
    tan2 = math.tan(math.radians(loss.alpha)) ** 2
    cosine, between = loss.cosines(relations)
    negatives, pairs = relations.negatives, listed_pairs(relations.positives)
    tiny = torch.finfo(cosine.dtype).tiny
    alone = relations.self_comparison
    of_anchor = (cosine - 1).mul_(4 * tan2).exp_()
    of_candidate = of_anchor if alone else (between - 1).mul_(4 * tan2).exp_()
    to_anchor = torch.zeros_like(of_anchor)
    to_candidate = to_anchor if alone else torch.zeros_like(of_candidate)
    columns, near = pairs.columns(cosine), at_places(cosine, pairs.places)
    share = pairs.weights / relations.counts_of(pairs).sum().clamp_min(tiny)
    value, pulls = near.new_zeros(()), torch.zeros_like(near)
    size = block_rows(cosine.shape[1])
    for at in range(0, near.numel(), size):
        part = slice(at, at + size)
        row, column = pairs.rows[part], columns[part]
        mine = of_anchor.index_select(0, row).mul_(negatives.index_select(0, row))
        other = of_candidate.index_select(0, column)
        summed = (mine * other).sum(1)
        exponents = summed.log().add_(8 * tan2 - 2 * (1 + tan2) * near[part])
        exponents.masked_fill_(summed <= tiny, -1e30)
        value = value + torch.dot(softplus(exponents), share[part])
        gradient = torch.sigmoid(exponents).mul_(share[part])
        pulls[part] = gradient * (-2 * (1 + tan2))
        gradient.div_(summed.clamp_min_(tiny)).mul_(4 * tan2)
        to_candidate.index_add_(0, column, mine.mul_(gradient.unsqueeze(1)))
        other.mul_(negatives.index_select(0, row)).mul_(gradient.unsqueeze(1))
        to_anchor.index_add_(0, row, other)
    to_anchor.mul_(of_anchor).view(-1).index_add_(0, pairs.places, pulls)
    if alone:
        return value, (to_anchor,)
    return value, (to_anchor, to_candidate.mul_(of_candidate))
