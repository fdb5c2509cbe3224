"""``pytorch_metric_learning.miners``: everything of ``lookalike.miners``."""

from lookalike import miners as _ours
from lookalike.miners import *  # noqa: F403

__all__ = list(_ours.__all__)
