"""``pytorch_metric_learning.reducers``: everything of ``lookalike.reducers``."""

from lookalike import reducers as _ours
from lookalike.reducers import *  # noqa: F403

__all__ = list(_ours.__all__)
