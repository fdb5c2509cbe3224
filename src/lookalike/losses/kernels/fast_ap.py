"""Value and gradient of FastAP."""

from typing import Any

import torch
from torch import Tensor

from lookalike.ops.histogram import histogram_of, shares
from lookalike.ops.pairs import at_places, listed_pairs
from lookalike.relations import Relations, in_row_blocks

__all__ = ["fast_ap_kernel"]


def fast_ap_kernel(loss: Any, relations: Relations) -> tuple[Tensor, tuple[Tensor]]:
    """The mean over the anchors that have a positive."""
    bins, scale = loss.num_bins, -loss.num_bins / 2**loss.distance.power

    def terms(r: Relations) -> tuple[Tensor, Tensor]:
        """Each anchor's loss and whether it has a positive, side by side; the gradients."""
        valid, positives = r.valid, r.positives
        pairs = listed_pairs(positives)
        left, share = shares(r.similarity * scale, bins)
        cell = at_places(left, pairs.places).add_(pairs.rows, alpha=bins)
        edge = cell + pairs.rows  # the rows of a histogram are one longer than those of cells
        right = at_places(share, pairs.places).mul_(pairs.weights)
        relevant = valid.new_zeros(len(valid) * (bins + 1))
        relevant.index_add_(0, edge, pairs.weights - right).index_add_(0, edge + 1, right)
        relevant = relevant.view(-1, bins + 1)
        everything = histogram_of(left, share.mul_(valid), valid, bins).cumsum(1)

        number = positives.sum(1, keepdim=True)
        some = number.sign()
        weight = some / number.clamp_min_(1e-30)
        everything.clamp_min_(1e-30)
        precision = relevant.cumsum(1).div_(everything)
        gain = relevant * precision
        losses = some - gain.sum(1, keepdim=True) * weight

        of_relevant = _from_here_on(relevant.div_(everything)).add_(precision)
        of_all = _from_here_on(gain.div_(everything))
        gradient = of_all.diff(dim=1).gather(1, left).mul_(valid)
        pull = of_relevant.diff(dim=1).view(-1).index_select(0, cell).mul_(pairs.weights)
        gradient.view(-1).index_add_(0, pairs.places, pull, alpha=-1)
        return torch.cat((losses, some), 1), gradient.mul_(weight * scale)

    values, gradient = in_row_blocks(relations, terms)
    losses, some = values.sum(0)
    number = some.clamp_min(torch.finfo(some.dtype).tiny)
    return losses / number, (gradient.div_(number),)


def _from_here_on(values: Tensor) -> Tensor:
    """The sum of each value and all to its right."""
    return values.sum(1, keepdim=True).add(values).sub_(values.cumsum(1))
