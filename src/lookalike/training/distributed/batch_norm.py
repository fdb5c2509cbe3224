"""Batch norm over the batch of all processes, so that N processes normalise as one would."""

import torch
from timm.layers.norm_act import convert_sync_batchnorm
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from lookalike.ops.rows import in_full_precision
from lookalike.training.distributed.gather import sum_over_ranks


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
