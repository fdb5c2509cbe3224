"""``pytorch_metric_learning.losses``: everything of ``lookalike.losses``, called as PML's."""

from lookalike.losses import *
from lookalike.pml.base_losses import *
from lookalike.pml.base_losses import OfLosses
from lookalike.pml.memory import *
from lookalike.pml.own_losses import *
from lookalike.pml.shipped import ship

ship(globals(), Loss, OfLosses)
