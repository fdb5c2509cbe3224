"""How near two embeddings are: cosine, inner product, Lp, signal-to-noise ratio, hyperbolic.

A distance is called as ``distance(query, reference)`` and gives the matrix in its own unit;
``distance.similarity`` gives the same with "larger is closer", which is what the losses read.
"""

from lookalike.distances.base import *
from lookalike.distances.hyperbolic import *
from lookalike.distances.lp import *
from lookalike.distances.products import *
from lookalike.distances.snr import *
from lookalike.registry import DISTANCES

create = DISTANCES.create
names = DISTANCES.names
