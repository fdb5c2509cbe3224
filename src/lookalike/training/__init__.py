"""Training: the loop, its checkpoints, and the folder of a run."""

from lookalike.progress import Watcher
from lookalike.runs.run import Run
from lookalike.signals import Interrupted
from lookalike.training.batches import embed
from lookalike.training.distributed.gather import average_gradients, gather_rows
from lookalike.training.distributed.ranks import is_first
from lookalike.training.runner import train

__all__ = [
    "Interrupted",
    "Run",
    "Watcher",
    "average_gradients",
    "embed",
    "gather_rows",
    "is_first",
    "train",
]
