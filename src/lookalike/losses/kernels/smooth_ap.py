"""Value and gradient of SmoothAP."""

from typing import Any

import torch
from torch import Tensor

from lookalike.ops.pairs import at_places, listed_pairs
from lookalike.ops.triplets import block_rows
from lookalike.relations import Relations

__all__ = ["smooth_ap_kernel"]


def smooth_ap_kernel(loss: Any, relations: Relations) -> tuple[Tensor, tuple[Tensor]]:
    """The mean over anchors; a block of positives at a time, compared with all candidates."""
    similarity, valid = relations.similarity, relations.valid
    positives = relations.positives
    pairs = listed_pairs(positives)
    columns = pairs.columns(positives)
    # each positive's part of the mean
    number = positives.sum(1)
    share = pairs.weights / (number.clamp_min(1e-30) * len(number))[pairs.rows]
    gradient = torch.zeros_like(similarity)
    precision = similarity.new_zeros(())
    size = block_rows(similarity.shape[1])
    for at in range(0, pairs.rows.numel(), size):
        block = slice(at, at + size)
        row, places, part = pairs.rows[block], pairs.places[block], share[block].unsqueeze(1)
        near = at_places(similarity, places).unsqueeze(1)
        above = torch.sigmoid_(similarity[row].sub_(near).div_(loss.temperature))
        above.scatter_(1, columns[block].unsqueeze(1), 0)
        everything, of_class = valid[row], positives[row]
        rank = 1 + (above * everything).sum(1, keepdim=True)
        rank_in_class = 1 + (above * of_class).sum(1, keepdim=True)
        ratio = rank_in_class / rank
        precision = precision + (part * ratio).sum()
        # d ratio / d above, times d above / d similarity
        moved = of_class.sub_(everything * ratio).mul_(part / rank / loss.temperature)
        moved.mul_(above * (1 - above)).neg_()
        gradient.index_add_(0, row, moved)
        gradient.view(-1).index_add_(0, places, -moved.sum(1))
    return number.sign().mean() - precision, (gradient,)
