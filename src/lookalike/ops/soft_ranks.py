"""Ranks that can be differentiated: each comparison is a sigmoid."""

from collections.abc import Sequence

import torch
from torch import Tensor

from lookalike.ops.fused import fused
from lookalike.ops.pairs import PairList, at_places
from lookalike.ops.triplets import block_rows

__all__ = ["soft_ranks"]


def soft_ranks(
    similarity: Tensor, weights: Tensor, pairs: PairList, temperature: float | Tensor
) -> Tensor:
    """``sum_(k != j) w_ik sigmoid((s_ik - s_ij) / temperature)`` of each pair (i, j).

    How many candidates stand before j. The formula holds [pairs, candidates] numbers; an ordinary
    backward pass makes them again, a block of pairs at a time.

    >>> from lookalike.ops.pairs import listed_pairs
    >>> similarity = torch.tensor([[0.9, 0.5, 0.1]])
    >>> soft_ranks(similarity, torch.ones(1, 3), listed_pairs(torch.ones(1, 3)), 0.01).round()
    tensor([0., 1., 2.])
    """
    columns = pairs.columns(similarity).unsqueeze(1)

    def before(similarity: Tensor, part: slice) -> Tensor:
        near = at_places(similarity, pairs.places[part]).unsqueeze(1)
        rows = similarity.index_select(0, pairs.rows[part])
        return torch.sigmoid((rows - near) / temperature).scatter(1, columns[part], 0)

    def formula(similarity: Tensor) -> Tensor:
        everything = slice(None)
        return (before(similarity, everything) * weights.index_select(0, pairs.rows)).sum(1)

    def fast(similarity: Tensor) -> tuple[Tensor, tuple[Tensor]]:
        ranks = similarity.new_empty(pairs.rows.shape)
        for part in _blocks(similarity, pairs):
            of_candidates = weights.index_select(0, pairs.rows[part])
            ranks[part] = before(similarity, part).mul_(of_candidates).sum(1)
        return ranks, (similarity,)

    def backward(
        gradient: Tensor, kept: tuple[Tensor | None, ...], _: Sequence[bool]
    ) -> tuple[Tensor]:
        (similarity,) = kept
        assert similarity is not None
        found = torch.zeros_like(similarity)
        for part in _blocks(similarity, pairs):
            rows = pairs.rows[part]
            above = before(similarity, part)
            moved = (1 - above).mul_(above).mul_(weights.index_select(0, rows))
            moved.mul_((gradient[part] / temperature).unsqueeze(1))
            found.index_add_(0, rows, moved)
            found.view(-1).index_add_(0, pairs.places[part], -moved.sum(1))
        return (found,)

    if isinstance(temperature, Tensor):
        return formula(similarity)
    return fused(formula, fast, similarity, backward=backward)


def _blocks(similarity: Tensor, pairs: PairList) -> list[slice]:
    size = block_rows(similarity.shape[1])
    return [slice(at, at + size) for at in range(0, pairs.rows.numel(), size)]
