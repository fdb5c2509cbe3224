"""Training: the loop, its checkpoints, and the folder of a run."""

from lookalike.training.batches import embed
from lookalike.training.gather import average_gradients, gather_rows
from lookalike.training.loop import train
from lookalike.training.ranks import is_first
from lookalike.training.run import Run
from lookalike.training.stopping import Interrupted
from lookalike.training.watcher import Watcher

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
