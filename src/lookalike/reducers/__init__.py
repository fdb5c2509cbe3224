"""Reducers: how the values of pairs, triplets, anchors or images become one number.

>>> from lookalike.losses import TripletMarginLoss
>>> loss = TripletMarginLoss(reducer="sum")
>>> loss = TripletMarginLoss(reducer=ThresholdReducer(low=0.1))
"""

from lookalike.reducers.base import Reducer, ReducerLike, Terms, build
from lookalike.reducers.means import (
    AvgNonZeroReducer,
    DivisorReducer,
    MeanReducer,
    SumReducer,
    ThresholdReducer,
    mean,
    mean_above_zero,
)
from lookalike.reducers.weighted import ClassWeightedReducer, MultipleReducers, PerAnchorReducer
from lookalike.registry import REDUCERS

__all__ = [
    "AvgNonZeroReducer",
    "ClassWeightedReducer",
    "DivisorReducer",
    "MeanReducer",
    "MultipleReducers",
    "PerAnchorReducer",
    "Reducer",
    "ReducerLike",
    "SumReducer",
    "Terms",
    "ThresholdReducer",
    "build",
    "create",
    "mean",
    "mean_above_zero",
    "names",
]

create = REDUCERS.create
names = REDUCERS.names
