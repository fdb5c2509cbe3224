"""``pytorch_metric_learning.distances``: everything of ``lookalike.distances``."""

from lookalike import distances as _ours
from lookalike.distances import *  # noqa: F403

__all__ = list(_ours.__all__)
