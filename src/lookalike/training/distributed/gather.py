"""One batch on several processes: the rows of all, with their gradients.

Every process computes the loss of the whole batch from the gathered embeddings, so pairs span all
processes and miners, memory and mixing see what one process would see. The backward of gathering
sums over the processes, and gradients of weights are averaged over them: the sum of N equal losses,
averaged over N. Network and learned loss weights then get exactly the gradient of one process.
Batch norm is over the batch of all processes too.
"""

from collections.abc import Callable, Iterable
from typing import Any

import torch
import torch.distributed as dist
from timm.layers.norm_act import convert_sync_batchnorm
from torch import Tensor, nn
from torch.autograd.function import Function
from torch.nn import functional
from torch.nn.modules.batchnorm import _BatchNorm

from lookalike.ops.rows import in_full_precision
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
    counts = sizes_of(whole) if whole is not None else [0] * world_size()
    if whole is None:
        dist.all_gather_object(counts, rows.shape[0])
    before, after = sum(counts[: rank()]), sum(counts[rank() + 1 :])
    around = (*[0, 0] * (rows.dim() - 1), before, after)
    return sum_over_ranks(functional.pad(rows, around))  # nothing is added to a row but zeros


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
    """Copy the values of the first process to all others."""
    if world_size() == 1:
        return
    for tensor in tensors:
        plain = tensor.detach().contiguous()
        dist.broadcast(plain, 0)
        with torch.no_grad():
            tensor.copy_(plain)


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


class SharedBatchNorm(_BatchNorm):
    """``SyncBatchNorm`` for the CPU; torch's needs a GPU.

    ``drop`` and ``act`` are those of timm's batch norm with a built-in activation.
    """

    def __init__(self, former: _BatchNorm) -> None:
        super().__init__(former.num_features)
        vars(self).update(vars(former))  # its settings, parameters and statistics
        self.drop = getattr(former, "drop", nn.Identity())
        self.act = getattr(former, "act", nn.Identity())

    def forward(self, input: Tensor) -> Tensor:
        """``(x - mean) / sqrt(var + eps) * weight + bias`` over all processes' rows."""
        normed = self._shared(input) if self.training else super().forward(input)
        found: Tensor = self.act(self.drop(normed))
        return found

    def _check_input_dim(self, input: Tensor) -> None:
        """Any number of dimensions is valid."""

    def _shared(self, input: Tensor) -> Tensor:
        values = in_full_precision(input)
        dims = [dim for dim in range(values.ndim) if dim != 1]
        shape = [1, -1, *[1] * (values.ndim - 2)]
        exact = torch.float64  # sums as exact as those of torch's own batch norm
        rows = torch.tensor(float(values.numel() // values.shape[1]), dtype=exact)
        count = sum_over_ranks(rows)
        mean = sum_over_ranks(values.sum(dims, dtype=exact)) / count
        centred = values - mean.to(values.dtype).view(shape)
        variance = sum_over_ranks(centred.square().sum(dims, dtype=exact)) / count
        self._track(mean.detach(), variance.detach(), float(count))
        normed = centred * (variance + self.eps).rsqrt().to(values.dtype).view(shape)
        if self.affine:
            normed = normed * self.weight.view(shape) + self.bias.view(shape)
        return normed.to(input.dtype)

    def _track(self, mean: Tensor, variance: Tensor, count: float) -> None:
        if self.running_mean is None or self.running_var is None:
            return
        if self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
        share = self.momentum
        if share is None:
            share = 1 / float(self.num_batches_tracked or 1)
        self.running_mean.lerp_(mean.to(self.running_mean.dtype), share)
        unbiased = variance * (count / max(count - 1, 1))
        self.running_var.lerp_(unbiased.to(self.running_var.dtype), share)


def share_statistics(module: nn.Module, device: torch.device) -> None:
    """Replace every batch norm by one over all processes, with the same parameters."""
    if device.type != "cpu":
        convert_sync_batchnorm(module)  # type: ignore[no-untyped-call]
        return
    for name, child in module.named_children():
        if isinstance(child, _BatchNorm):
            setattr(module, name, SharedBatchNorm(child))
        else:
            share_statistics(child, device)
