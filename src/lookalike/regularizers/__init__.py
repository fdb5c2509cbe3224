"""Regularisers: penalties on embeddings and on learned weights."""

from lookalike.registry import REGULARIZERS
from lookalike.regularizers.penalties import *

create = REGULARIZERS.create
names = REGULARIZERS.names
