"""Scores of embeddings, by query and gallery where the data set defines them."""

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from lookalike import evaluation

__all__ = ["score"]


def score(
    embeddings: Tensor,
    labels: NDArray[np.int64],
    query: NDArray[np.bool_] | None,
    gallery: NDArray[np.bool_] | None,
    metrics: tuple[str, ...],
) -> dict[str, float]:
    """All against all, or queries against a gallery."""
    if query is None or gallery is None:
        return evaluation.evaluate(embeddings, labels, metrics)
    rows = embeddings.numpy()
    return evaluation.evaluate(rows[query], labels[query], metrics, rows[gallery], labels[gallery])
