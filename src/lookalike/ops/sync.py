"""Whether looking at numbers would make the host wait for the device."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

__all__ = ["as_on_a_device", "can_sync"]

_pretend_device = False


def can_sync(values: Tensor) -> bool:
    """Whether a branch may depend on the values: on the CPU, and not while compiling."""
    on_host = values.device.type == "cpu" and not _pretend_device
    return on_host and not torch.compiler.is_compiling()


@contextmanager
def as_on_a_device() -> Iterator[None]:
    """Take the branches of other devices on the CPU, so that tests can compare their values."""
    global _pretend_device
    before, _pretend_device = _pretend_device, True
    try:
        yield
    finally:
        _pretend_device = before
