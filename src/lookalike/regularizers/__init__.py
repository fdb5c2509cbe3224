"""Regularisers: penalties on embeddings and on learned weights."""

from lookalike.registry import REGULARIZERS
from lookalike.regularizers.base import Regularizer
from lookalike.regularizers.center_invariant import CenterInvariantRegularizer
from lookalike.regularizers.lp import LpRegularizer
from lookalike.regularizers.regular_face import RegularFaceRegularizer
from lookalike.regularizers.sparse_centers import SparseCentersRegularizer
from lookalike.regularizers.zero_mean import ZeroMeanRegularizer

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
