"""Training: the loop, its checkpoints, and the folder of a run."""

from lookalike.training.batches import embed
from lookalike.training.loop import Interrupted, train
from lookalike.training.run import Run
from lookalike.training.watcher import Watcher

__all__ = ["Interrupted", "Run", "Watcher", "embed", "train"]
