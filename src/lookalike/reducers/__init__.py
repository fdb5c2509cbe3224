"""Reducers: how the values of pairs, triplets, anchors or images become one number.

>>> from lookalike.losses import TripletMarginLoss
>>> loss = TripletMarginLoss(reducer="sum")
>>> loss = TripletMarginLoss(reducer=ThresholdReducer(low=0.1))
"""

from lookalike.reducers.base import Reducer
from lookalike.reducers.class_weighted import ClassWeightedReducer
from lookalike.reducers.mean import DivisorReducer, MeanReducer, SumReducer, mean
from lookalike.reducers.per_anchor import PerAnchorReducer
from lookalike.reducers.pml_base import BaseReducer
from lookalike.reducers.several import DoNothingReducer, MultipleReducers
from lookalike.reducers.terms import Batch, Terms
from lookalike.reducers.threshold import AvgNonZeroReducer, ThresholdReducer, mean_above_zero
from lookalike.registry import REDUCERS

__all__ = [
    "AvgNonZeroReducer",
    "BaseReducer",
    "Batch",
    "ClassWeightedReducer",
    "DivisorReducer",
    "DoNothingReducer",
    "MeanReducer",
    "MultipleReducers",
    "PerAnchorReducer",
    "Reducer",
    "SumReducer",
    "Terms",
    "ThresholdReducer",
    "create",
    "mean",
    "mean_above_zero",
    "names",
]

create = REDUCERS.create
names = REDUCERS.names
