"""The module paths of pytorch-metric-learning (PML), filled with subclasses of our parts.

Code that is written against PML runs after ``pytorch_metric_learning`` is replaced by
``lookalike.pml`` in its imports. ``docs/coming-from-pml.md`` has a table of every name.

>>> from lookalike.pml import losses, miners
>>> from lookalike.pml.utils.accuracy_calculator import AccuracyCalculator
"""

from lookalike.pml import distances, losses, miners, reducers, regularizers, samplers, utils

__all__ = ["distances", "losses", "miners", "reducers", "regularizers", "samplers", "utils"]
