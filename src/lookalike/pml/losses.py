"""``pytorch_metric_learning.losses``: everything of ``lookalike.losses``, and the memory."""

from lookalike import losses as _ours
from lookalike.losses import *  # noqa: F403
from lookalike.memory import CrossBatchMemory

__all__ = ["CrossBatchMemory", *_ours.__all__]
