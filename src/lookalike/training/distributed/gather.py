"""One batch on several processes: the rows of all, with their gradients.

Every process computes the loss of the whole batch from the gathered embeddings, so pairs span all
processes and miners, memory and mixing see what one process would see. The backward of gathering
sums over the processes, and gradients of weights are averaged over them: the sum of N equal losses,
averaged over N. Network and learned loss weights then get exactly the gradient of one process.
"""

from collections.abc import Callable, Iterable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.autograd.function import Function
from torch.distributed.tensor import DTensor

from lookalike.training.distributed.ranks import own_part, rank, sizes_of, world_size


def gather_rows(rows: Tensor, whole: int | None = None) -> Tensor:
    """The rows of all processes, in their order; differentiable.

    Args:
        rows: The rows of this process.
        whole: The number of rows of all processes, of which each has its ``own_part``. If it is
            None, the processes exchange their numbers first, which waits for the device.

    Returns:
        All rows; in a run of one process ``rows`` itself.
    """
    if world_size() == 1:
        return rows
    sizes = [0] * world_size() if whole is None else sizes_of(whole)
    if whole is None:
        dist.all_gather_object(sizes, rows.shape[0])
    gathered: Tensor = GatherRows.apply(rows, sizes)
    return gathered


def shared_out(embed: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """``embed`` for rows that all processes have: each embeds its part, all get the whole."""
    if world_size() == 1:
        return embed

    def share(source: Tensor) -> Tensor:
        count = source.shape[0]
        if count < world_size():  # too few to share: all embed all, with the same result
            return embed(source)
        return gather_rows(embed(source[own_part(count)]), count)

    return share


def sum_over_ranks(values: Tensor) -> Tensor:
    """The sum over all processes; differentiable."""
    summed: Tensor = SumOverRanks.apply(values)
    return summed


def average_gradients(weights: Iterable[Tensor]) -> None:
    """Average the gradients of all processes, for parameters that DDP does not handle.

    Args:
        weights: The parameters; those without a gradient are skipped.
    """
    if world_size() == 1:
        return
    for weight in weights:
        if weight.grad is not None:
            dist.all_reduce(weight.grad)
            weight.grad /= world_size()


def broadcast_from_first(tensors: Iterable[Tensor]) -> None:
    """Copy the values of the first process to all others; parts of shared out ones stay."""
    if world_size() == 1:
        return
    for tensor in tensors:
        if isinstance(tensor, DTensor):
            continue
        plain = tensor.detach().contiguous()
        dist.broadcast(plain, 0)
        with torch.no_grad():
            tensor.copy_(plain)


class GatherRows(Function):
    """All-gather; backward: the gradients of all processes for this one's rows, summed."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, sizes: list[int]) -> Tensor:
        """Rows are padded to the largest part for the exchange."""
        ctx.sizes = sizes
        padded = rows.contiguous()
        if rows.shape[0] < max(sizes):
            padded = rows.new_zeros(max(sizes), *rows.shape[1:])
            padded[: rows.shape[0]] = rows
        parts = [torch.empty_like(padded) for _ in sizes]
        dist.all_gather(parts, padded)
        return torch.cat([part[:size] for part, size in zip(parts, sizes, strict=True)])

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        """Sum over the processes, then take this one's rows."""
        start = sum(ctx.sizes[: rank()])
        summed = SumOverRanks.forward(None, gradient)
        return summed[start : start + ctx.sizes[rank()]], None


class SumOverRanks(Function):
    """All-reduce; backward: the same of the gradients."""

    @staticmethod
    def forward(_: Any, values: Tensor) -> Tensor:
        """The sum."""
        summed = values.contiguous().clone()
        dist.all_reduce(summed)
        return summed

    @staticmethod
    def backward(_: Any, gradient: Tensor) -> Tensor:
        """The sum of the gradients."""
        return SumOverRanks.forward(None, gradient)
