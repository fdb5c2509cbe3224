"""Lookalike: teach a network which images look alike, and prove fairly how well it does.

>>> import lookalike as la
>>> loss = la.losses.create("multi-similarity", alpha=2, beta=50, base=0.5)
"""

import importlib
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # the rooms are imported when first asked for, so that the command starts fast
    from lookalike import (
        data,
        distances,
        losses,
        memory,
        miners,
        mixing,
        models,
        reducers,
        regularizers,
        samplers,
    )
    from lookalike.evaluation import evaluate, nearest
    from lookalike.training.estimator import MetricLearner

__all__ = [
    "MetricLearner",
    "data",
    "distances",
    "evaluate",
    "losses",
    "memory",
    "miners",
    "mixing",
    "models",
    "nearest",
    "reducers",
    "regularizers",
    "samplers",
]

__version__ = version("lookalike")

_HOMES = {
    "MetricLearner": "lookalike.training.estimator",
    "evaluate": "lookalike.evaluation",
    "nearest": "lookalike.evaluation",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    if name in __all__:
        return importlib.import_module(f"lookalike.{name}")
    raise AttributeError(f"module 'lookalike' has no attribute '{name}'")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
