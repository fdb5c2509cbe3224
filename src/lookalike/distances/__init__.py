"""How near two embeddings are: cosine, inner product, Lp, signal-to-noise ratio, hyperbolic.

A distance is called as ``distance(query, reference)`` and gives the matrix in its own unit;
``distance.similarity`` gives the same with "larger is closer", which is what the losses read.
"""

from lookalike.distances.base import Distance
from lookalike.distances.batched import BatchedDistance
from lookalike.distances.hyperbolic import HyperbolicDistance
from lookalike.distances.lp import LpDistance
from lookalike.distances.module import DistanceModule
from lookalike.distances.naming import DistanceLike, create, names
from lookalike.distances.pml_base import BaseDistance
from lookalike.distances.products import CosineSimilarity, DotProductSimilarity
from lookalike.distances.snr import SNRDistance

__all__ = [
    "BaseDistance",
    "BatchedDistance",
    "CosineSimilarity",
    "Distance",
    "DistanceLike",
    "DistanceModule",
    "DotProductSimilarity",
    "HyperbolicDistance",
    "LpDistance",
    "SNRDistance",
    "create",
    "names",
]
