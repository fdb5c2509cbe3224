"""Reducers: how the values of pairs, triplets, anchors or images become one number.

>>> from lookalike.losses import TripletMarginLoss
>>> loss = TripletMarginLoss(reducer="sum")
>>> loss = TripletMarginLoss(reducer=ThresholdReducer(low=0.1))
"""

from lookalike.reducers.base import *
from lookalike.reducers.weighted import *
from lookalike.registry import REDUCERS

create = REDUCERS.create
names = REDUCERS.names
