"""How near two embeddings are: cosine, inner product, Lp, signal-to-noise ratio, hyperbolic.

A distance is called as ``distance(query, reference)`` and gives the matrix in its own unit;
``distance.similarity`` gives the same with "larger is closer", which is what the losses read.
"""

from lookalike.distances.base import AdjustableDistance, Distance, DistanceLike, build
from lookalike.distances.hyperbolic import HyperbolicDistance
from lookalike.distances.lp import LpDistance, squared_l2
from lookalike.distances.products import CosineSimilarity, DotProductSimilarity
from lookalike.distances.snr import SNRDistance
from lookalike.registry import DISTANCES

__all__ = [
    "AdjustableDistance",
    "CosineSimilarity",
    "Distance",
    "DistanceLike",
    "DotProductSimilarity",
    "HyperbolicDistance",
    "LpDistance",
    "SNRDistance",
    "build",
    "create",
    "names",
    "squared_l2",
]

create = DISTANCES.create
names = DISTANCES.names
