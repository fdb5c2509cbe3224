"""The configuration of a run: its schema, recipes, grids of recipes and overrides.

>>> load(None, ["loss.name=triplet", "optim.lr=1e-4"]).optim.lr
0.0001
"""

from lookalike.config.keys import without_effect
from lookalike.config.loading import parse
from lookalike.config.recipes import load
from lookalike.config.schema import (
    DataConfig,
    ModelConfig,
    OptimConfig,
    PartConfig,
    RunConfig,
    TrainConfig,
)

__all__ = [
    "DataConfig",
    "ModelConfig",
    "OptimConfig",
    "PartConfig",
    "RunConfig",
    "TrainConfig",
    "load",
    "parse",
    "without_effect",
]
