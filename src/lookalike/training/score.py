"""Scores of embeddings, by query and gallery where the data set defines them."""

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from lookalike.evaluation import score_distributed

__all__ = ["score"]


def score(
    embeddings: Tensor,
    labels: NDArray[np.int64],
    query: NDArray[np.bool_] | None,
    gallery: NDArray[np.bool_] | None,
    metrics: tuple[str, ...],
) -> dict[str, float]:
    """All against all, or queries against a gallery; several processes share the queries."""
    if query is None or gallery is None:
        return score_distributed(embeddings, labels, metrics).scores
    rows = embeddings.numpy()
    return score_distributed(
        rows[query], labels[query], metrics, rows[gallery], labels[gallery]
    ).scores
