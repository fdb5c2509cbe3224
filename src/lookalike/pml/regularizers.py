"""``pytorch_metric_learning.regularizers``: everything of ``lookalike.regularizers``."""

from lookalike import regularizers as _ours
from lookalike.regularizers import *  # noqa: F403

__all__ = list(_ours.__all__)
