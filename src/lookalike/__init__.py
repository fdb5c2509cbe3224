"""Lookalike: teach a network which images look alike, and prove fairly how well it does.

>>> import lookalike as la
>>> loss = la.losses.create("multi-similarity", alpha=2, beta=50, base=0.5)
"""

import importlib
import sys
from importlib.metadata import version
from types import ModuleType
from typing import TYPE_CHECKING, Any

from lookalike.imports import guard_imports

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
    from lookalike.api import choose, compare, embed, load, report, study, train
    from lookalike.evaluation import evaluate, nearest
    from lookalike.registry import trust
    from lookalike.search import Index
    from lookalike.training.estimator import MetricLearner

__all__ = [
    "Index",
    "MetricLearner",
    "choose",
    "compare",
    "data",
    "distances",
    "embed",
    "evaluate",
    "load",
    "losses",
    "memory",
    "miners",
    "mixing",
    "models",
    "nearest",
    "reducers",
    "regularizers",
    "report",
    "samplers",
    "study",
    "train",
    "trust",
]

__version__ = version("lookalike")
guard_imports()

_HOMES = {
    "Index": "lookalike.search",
    "MetricLearner": "lookalike.training.estimator",
    "embed": "lookalike.api",
    "evaluate": "lookalike.evaluation",
    "nearest": "lookalike.evaluation",
    "load": "lookalike.api",
    "train": "lookalike.api",
    "trust": "lookalike.registry",
}
_CALLABLE = ("choose", "compare", "report", "study")


class _Room(ModuleType):
    """A package that can be called: ``la.compare(run, other)`` is ``lookalike.api.compare``."""

    def __call__(self, *args: Any, **options: Any) -> Any:
        """Call the function of the same name."""
        from lookalike import api

        return getattr(api, self.__name__.rpartition(".")[2])(*args, **options)


class _Package(ModuleType):
    """This package: its rooms that have the name of a function become callable when imported."""

    def __setattr__(self, name: str, value: object) -> None:
        if name in _CALLABLE and isinstance(value, ModuleType):
            value.__class__ = _Room
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    if name in __all__:
        return importlib.import_module(f"lookalike.{name}")
    raise AttributeError(f"module 'lookalike' has no attribute '{name}'")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
