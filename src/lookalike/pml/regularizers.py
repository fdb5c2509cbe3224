"""``pytorch_metric_learning.regularizers``: everything of ``lookalike.regularizers``."""

from typing import TYPE_CHECKING

import torch  # noqa: F401 (the examples of the docstrings read it)

from lookalike import regularizers as core
from lookalike.pml.shipped import OF_MODULES, Shipped, public_parts

if TYPE_CHECKING:
    from lookalike.regularizers import *  # noqa: F403

__all__ = list(core.__all__)


class _OfRegularizers(Shipped):
    hooks = "compute_loss set_class_masks set_reducer sub_loss_names reset_stats set_stats"
    hooks += " get_default_distance get_default_reducer"
    instead = "write forward(rows), which returns the penalty"
    arguments = OF_MODULES


globals().update(public_parts(core, core.Regularizer, _OfRegularizers, __name__))
