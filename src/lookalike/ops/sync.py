"""Whether looking at numbers would make the host wait for the device."""

import torch
from torch import Tensor

__all__ = ["can_sync"]


def can_sync(values: Tensor) -> bool:
    """Whether values may be looked at, as a check does: on the CPU, and not while compiling."""
    return values.device.type == "cpu" and not torch.compiler.is_compiling()
