"""``torch.autocast`` for any device: some have none, and asking for it there is an error."""

from contextlib import AbstractContextManager, nullcontext

import torch

__all__ = ["autocast", "autocast_enabled"]

_NOTHING = nullcontext()


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
