"""The configuration of a run: its schema, recipes, grids of recipes and overrides.

>>> load(None, ["loss.name=triplet", "optim.lr=1e-4"]).optim.lr
0.0001
"""

from lookalike.config.keys import without_effect
from lookalike.config.loading import explain, merge, override, parse
from lookalike.config.recipes import load
from lookalike.config.recipes import read as read_yaml
from lookalike.config.schema import (
    DataConfig,
    MemoryConfig,
    MixConfig,
    ModelConfig,
    OptimConfig,
    PartConfig,
    ProtocolConfig,
    RunConfig,
    Section,
    TrainConfig,
)

__all__ = [
    "DataConfig",
    "MemoryConfig",
    "MixConfig",
    "ModelConfig",
    "OptimConfig",
    "PartConfig",
    "ProtocolConfig",
    "RunConfig",
    "Section",
    "TrainConfig",
    "explain",
    "load",
    "merge",
    "override",
    "parse",
    "read_yaml",
    "without_effect",
]
