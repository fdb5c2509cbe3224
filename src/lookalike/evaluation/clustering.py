"""Clustering scores: do the clusters of the embeddings fall together with the classes."""

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from lookalike.evaluation.relevance import Ints

__all__ = ["cluster", "clustering_scores", "pair_f1"]

ITERATIONS = 20

RESTARTS = 10
"""k-means from so many starts, the best kept: a single one often joins two clear clusters."""

CHEAP = 10_000_000
"""Items x clusters up to which the restarts take no time to speak of; above, one start."""


def clustering_scores(
    names: tuple[str, ...], embeddings: Tensor, codes: Ints, seed: int = 0
) -> dict[str, float]:
    """NMI, AMI and pair F1 of k-means with as many clusters as classes."""
    from sklearn.metrics import adjusted_mutual_info_score, normalized_mutual_info_score

    found = cluster(embeddings, int(codes.max()) + 1, seed)
    compute = {
        "nmi": normalized_mutual_info_score,
        "ami": adjusted_mutual_info_score,
        "f1": pair_f1,
    }
    return {name: float(compute[name](codes, found)) for name in names}


def cluster(embeddings: Tensor, clusters: int, seed: int = 0) -> Ints:
    """The cluster of each row by k-means (FAISS), seeded."""
    import faiss

    rows = embeddings.cpu().numpy()
    if clusters >= len(rows):
        return np.arange(len(rows))
    means = faiss.Kmeans(
        rows.shape[1],
        clusters,
        niter=ITERATIONS,
        nredo=RESTARTS if len(rows) * clusters <= CHEAP else 1,
        seed=seed,
        min_points_per_centroid=1,
        max_points_per_centroid=len(rows),
    )
    means.train(rows)
    found: Ints = means.index.search(rows, 1)[1][:, 0].astype(np.int64)
    return found


def pair_f1(classes: NDArray[np.generic], clusters: NDArray[np.generic]) -> float:
    """F1 of "two items share a cluster" as an answer to "two items share a class".

    >>> pair_f1(np.array([0, 0, 1, 1]), np.array([1, 1, 0, 0]))
    1.0
    """
    own = np.unique(classes, return_inverse=True)[1]
    found = np.unique(clusters, return_inverse=True)[1]
    both = np.unique(own * (found.max() + 1) + found, return_counts=True)[1]
    right = _pairs(both)
    answered, wanted = _pairs(np.bincount(found)), _pairs(np.bincount(own))
    # 2 P R / (P + R) with P = right / answered, R = right / wanted
    return 2 * right / (answered + wanted) if answered + wanted else 1.0


def _pairs(sizes: Ints) -> int:
    return int((sizes * (sizes - 1) // 2).sum())
