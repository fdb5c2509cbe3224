"""Regularisers: penalties on embeddings and on learned weights."""

from lookalike.registry import REGULARIZERS
from lookalike.regularizers.penalties import (
    CenterInvariantRegularizer,
    LpRegularizer,
    RegularFaceRegularizer,
    Regularizer,
    SparseCentersRegularizer,
    ZeroMeanRegularizer,
)

__all__ = [
    "CenterInvariantRegularizer",
    "LpRegularizer",
    "RegularFaceRegularizer",
    "Regularizer",
    "SparseCentersRegularizer",
    "ZeroMeanRegularizer",
    "create",
    "names",
]

create = REGULARIZERS.create
names = REGULARIZERS.names
