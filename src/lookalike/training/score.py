"""Scores of embeddings, by query and gallery where the data set defines them, and how they read."""

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from lookalike import evaluation
from lookalike.evaluation.metrics import more_is_better

__all__ = ["chance", "format_score", "more_is_better", "score"]


def score(
    embeddings: Tensor,
    labels: NDArray[np.int64],
    query: NDArray[np.bool_] | None,
    gallery: NDArray[np.bool_] | None,
    metrics: tuple[str, ...],
) -> dict[str, float]:
    """All against all, or queries against a gallery; several processes share the queries."""
    if query is None or gallery is None:
        return evaluation.evaluate(embeddings, labels, metrics, distributed=True)
    rows = embeddings.numpy()
    return evaluation.evaluate(
        rows[query], labels[query], metrics, rows[gallery], labels[gallery], distributed=True
    )


def chance(
    labels: NDArray[np.int64],
    query: NDArray[np.bool_] | None = None,
    gallery: NDArray[np.bool_] | None = None,
) -> float:
    """Recall@1 of a random order: how likely an item drawn from the gallery is of one's class.

    Queries without any relevant item are left out, as in every score.

    >>> chance(np.array([0, 0, 1, 1]))  # one of the three others
    0.3333333333333333
    """
    apart = query is not None and gallery is not None
    asking, answering = (labels[query], labels[gallery]) if apart else (labels, labels)
    itself = 0 if apart else 1
    relevant = np.bincount(answering, minlength=int(labels.max()) + 1)[asking] - itself
    share = relevant[relevant > 0] / (len(answering) - itself)
    return float(share.mean()) if len(share) else 0.0


def format_score(name: str, value: float) -> str:
    """A score for people: per cent with one decimal where it is a share, else four places.

    ``name`` may say of which classes it is.

    >>> format_score("validation map@r", 0.12345), format_score("loss", 0.12345)
    ('12.3 %', '0.1235')
    """
    share = more_is_better(name.removeprefix("validation "))
    return f"{100 * value:.1f} %" if share else f"{value:.4f}"
