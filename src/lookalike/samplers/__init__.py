"""Batch samplers: which images form a batch.

>>> sampler = create("spc", [0, 0, 1, 1, 2, 2], batch_size=4, per_class=2)
>>> [len(batch) for batch in sampler]
[4]
"""

from lookalike.registry import SAMPLERS
from lookalike.samplers.base import *
from lookalike.samplers.by_embedding import *
from lookalike.samplers.by_label import *

create = SAMPLERS.create
names = SAMPLERS.names
