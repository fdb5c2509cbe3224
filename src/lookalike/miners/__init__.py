"""Miners: which pairs and triplets of a batch a loss sees."""

from lookalike.miners.base import *
from lookalike.miners.easy_hard import *
from lookalike.miners.mined import *
from lookalike.miners.multi_similarity import *
from lookalike.miners.rho import *
from lookalike.miners.sampled import *
from lookalike.miners.semi_hard import *
from lookalike.miners.uniform_histogram import *
from lookalike.registry import MINERS

create = MINERS.create
names = MINERS.names
