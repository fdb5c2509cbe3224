"""Ranks that can be differentiated: each comparison is a sigmoid."""

from collections.abc import Sequence

import torch
from torch import Tensor

from lookalike.ops.fused import Backward, Fast, fused
from lookalike.ops.pairs import PairList, at_places
from lookalike.ops.sigmoids import sigmoid_sums, slope_sums
from lookalike.ops.sync import can_sync
from lookalike.ops.triplets import block_rows

__all__ = ["soft_ranks"]


def soft_ranks(
    similarity: Tensor, weights: Sequence[Tensor], pairs: PairList, temperature: float | Tensor
) -> Tensor:
    """``sum_(k != j) w_ik sigmoid((s_ik - s_ij) / temperature)`` of each pair (i, j).

    How many candidates stand before j: [weights, pairs], a row for each matrix of weights. The
    formula holds [pairs, candidates] numbers; an ordinary backward pass makes them again, a block
    at a time.

    >>> from lookalike.ops.pairs import listed_pairs
    >>> similarity = torch.tensor([[0.9, 0.5, 0.1]])
    >>> soft_ranks(similarity, [torch.ones(1, 3)], listed_pairs(torch.ones(1, 3)), 0.01).round()
    tensor([[0., 1., 2.]])
    """

    def formula(similarity: Tensor) -> Tensor:
        columns = pairs.columns(similarity).unsqueeze(1)
        near = at_places(similarity, pairs.places).unsqueeze(1)
        rows = similarity.index_select(0, pairs.rows)
        above = torch.sigmoid((rows - near) / temperature).scatter(1, columns, 0)
        return torch.stack([(above * w.index_select(0, pairs.rows)).sum(1) for w in weights])

    if isinstance(temperature, Tensor):
        return formula(similarity)
    everything = not can_sync(similarity) and pairs.rows.numel() == similarity.numel()
    if everything:
        fast, backward = _of_all_pairs(weights, temperature)
    else:
        fast, backward = _of_listed_pairs(weights, pairs, temperature)
    return fused(formula, fast, similarity, backward=backward)


def _of_listed_pairs(
    weights: Sequence[Tensor], pairs: PairList, temperature: float
) -> tuple[Fast, Backward]:
    """A block of pairs at a time, which stays near the processor."""
    columns = pairs.columns(weights[0]).unsqueeze(1)

    def before(similarity: Tensor, part: slice) -> Tensor:
        near = at_places(similarity, pairs.places[part]).unsqueeze(1)
        rows = similarity.index_select(0, pairs.rows[part])
        above = rows.sub_(near).div_(temperature).sigmoid_()
        return above.scatter_(1, columns[part], 0)

    def fast(similarity: Tensor) -> tuple[Tensor, tuple[Tensor]]:
        ranks = similarity.new_empty(len(weights), pairs.rows.numel())
        for part in _blocks(similarity, pairs):
            above = before(similarity, part)
            for found, each in zip(ranks, weights, strict=True):
                found[part] = each.index_select(0, pairs.rows[part]).mul_(above).sum(1)
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
            slope = (1 - above).mul_(above)
            for of_weights, each in zip(gradient, weights, strict=True):
                moved = each.index_select(0, rows).mul_(slope)
                moved.mul_((of_weights[part] / temperature).unsqueeze(1))
                found.index_add_(0, rows, moved)
                found.view(-1).index_add_(0, pairs.places[part], -moved.sum(1))
        return (found,)

    return fast, backward


def _of_all_pairs(weights: Sequence[Tensor], temperature: float) -> tuple[Fast, Backward]:
    """All pairs of the matrix, in order, in few operations."""
    stacked = torch.stack(tuple(weights), 2)
    number = len(weights)

    def fast(similarity: Tensor) -> tuple[Tensor, tuple[Tensor]]:
        ranks = sigmoid_sums(similarity / temperature, stacked)
        return ranks.reshape(-1, number).T, (similarity,)

    def backward(
        gradient: Tensor, kept: tuple[Tensor | None, ...], _: Sequence[bool]
    ) -> tuple[Tensor]:
        (similarity,) = kept
        assert similarity is not None
        pulled = (gradient.T / temperature).view(*similarity.shape, number)
        sums = slope_sums(similarity / temperature, torch.cat([pulled, stacked], 2))
        far, near = torch.split(sums, number, 2)
        return ((stacked * far).addcmul_(pulled, near, value=-1).sum(2),)

    return fast, backward


def _blocks(similarity: Tensor, pairs: PairList) -> list[slice]:
    size = block_rows(similarity.shape[1])
    return [slice(at, at + size) for at in range(0, pairs.rows.numel(), size)]
