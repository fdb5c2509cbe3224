"""What differs between devices: autocast, waiting for numbers, and how memory is kept."""

import ctypes
import os
import sys
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor

__all__ = ["autocast", "autocast_enabled", "can_sync", "keep_freed_memory"]

_NOTHING = nullcontext()
TRIM_THRESHOLD, MMAP_MAX = -1, -4  # of glibc's <malloc.h>


def autocast_enabled(device: torch.device) -> bool:
    """Whether autocast is on for this kind of device.

    >>> autocast_enabled(torch.device("meta"))
    False
    """
    return torch.amp.is_autocast_available(device.type) and torch.is_autocast_enabled(device.type)


def autocast(device: torch.device, *, enabled: bool) -> AbstractContextManager[object]:
    """A context with autocast on or off; nothing to do where that is so already, or it has none."""
    kind = device.type
    if not torch.amp.is_autocast_available(kind) or torch.is_autocast_enabled(kind) == enabled:
        return _NOTHING
    return torch.autocast(kind, enabled=enabled)


def can_sync(values: Tensor) -> bool:
    """Whether values may be looked at, as a check does: on the CPU, and not while compiling."""
    return values.device.type == "cpu" and not torch.compiler.is_compiling()


def keep_freed_memory() -> bool:
    """Have glibc keep freed memory for this process; False where there is no glibc.

    A step on the CPU needs the same large tensors as the one before. glibc returns those above
    32 MB to the system at once, and the kernel hands them out again page by page, filled with
    zeros. Measured on glyphs with small-cnn: steps of 512 images take 1.25 to 1.4 times the CPU
    time without this, steps of 128 images the same. The process stays as large as it ever was.
    A user's own settings of glibc (``MALLOC_MMAP_MAX_``, ...) take precedence.
    """
    if any(name.startswith("MALLOC_") for name in os.environ):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    return mallopt is not None and bool(mallopt(MMAP_MAX, 0)) and bool(mallopt(TRIM_THRESHOLD, -1))
