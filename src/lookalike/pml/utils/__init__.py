"""``pytorch_metric_learning.utils``: accuracy, inference, several processes, index tuples."""

from lookalike.pml.utils import (
    accuracy_calculator,
    common_functions,
    distributed,
    inference,
    loss_and_miner_utils,
)

__all__ = [
    "accuracy_calculator",
    "common_functions",
    "distributed",
    "inference",
    "loss_and_miner_utils",
]
