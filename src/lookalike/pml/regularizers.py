"""``pytorch_metric_learning.regularizers``: everything of ``lookalike.regularizers``."""

import torch  # noqa: F401 (the examples of the docstrings read it)

from lookalike.pml.shipped import Shipped, ship
from lookalike.regularizers import *


class _OfRegularizers(Shipped):
    hooks = "compute_loss set_class_masks set_reducer sub_loss_names reset_stats set_stats"
    hooks += " get_default_distance get_default_reducer"
    instead = "write forward(rows), which returns the penalty"


ship(globals(), Regularizer, _OfRegularizers)
