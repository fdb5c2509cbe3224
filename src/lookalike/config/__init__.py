"""The configuration of a run: its schema, recipes, grids of recipes and overrides.

>>> load(None, ["loss.name=triplet", "optim.lr=1e-4"]).optim.lr
0.0001
"""

from lookalike.config.keys import without_effect
from lookalike.config.loading import parse
from lookalike.config.recipes import load, load_trusted
from lookalike.config.schema import (
    ColorJitterConfig,
    DataConfig,
    ErasingConfig,
    ModelConfig,
    OptimConfig,
    PartConfig,
    RandAugmentConfig,
    RunConfig,
    TrainConfig,
    TransformConfig,
)

__all__ = [
    "ColorJitterConfig",
    "DataConfig",
    "ErasingConfig",
    "ModelConfig",
    "OptimConfig",
    "PartConfig",
    "RandAugmentConfig",
    "RunConfig",
    "TrainConfig",
    "TransformConfig",
    "load",
    "load_trusted",
    "parse",
    "without_effect",
]
