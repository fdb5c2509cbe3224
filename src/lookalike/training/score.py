"""Scores of embeddings and of untrained networks, and how they are printed."""

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from lookalike import evaluation
from lookalike.data import Subset
from lookalike.evaluation.metrics import more_is_better
from lookalike.models.head import Head, l2_normalise


def score(embeddings: Tensor, subset: Subset, metrics: tuple[str, ...]) -> dict[str, float]:
    """Scores of all against all, or of queries against a gallery; processes share the queries."""
    labels, query, gallery = subset.labels, subset.query, subset.gallery
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
    """Recall@1 of a random order: the probability that a random gallery item is of one's class.

    Queries without any relevant item are excluded, as in every score.

    >>> chance(np.array([0, 0, 1, 1]))  # one of the three others
    0.3333333333333333
    """
    separate = query is not None and gallery is not None
    queries, items = (labels[query], labels[gallery]) if separate else (labels, labels)
    itself = 0 if separate else 1
    relevant = np.bincount(items, minlength=int(labels.max()) + 1)[queries] - itself
    share = relevant[relevant > 0] / (len(items) - itself)
    return float(share.mean()) if len(share) else 0.0


@torch.no_grad()
def untrained_scores(
    head: Head, features: Tensor, score: Callable[[Tensor], dict[str, float]]
) -> dict[str, dict[str, float]]:
    """The scores of a model before training, from the inputs of its head's linear layer.

    ``untrained`` is the model with its head, before the first step; ``raw_features`` are the
    network's own features, where the head changes them.
    """
    raw = l2_normalise(features) if head.normalize else features
    if not isinstance(head.linear, nn.Linear):
        return {"untrained": score(raw)}
    projected: Tensor = head.linear(features.to(head.linear.weight)).float().cpu()
    embeddings = l2_normalise(projected) if head.normalize else projected
    return {"untrained": score(embeddings), "raw_features": score(raw)}


def format_score(name: str, value: float) -> str:
    """A score as text: per cent with one decimal where it is a share, else four decimals.

    ``name`` may begin with ``validation``.

    >>> format_score("validation map@r", 0.12345), format_score("loss", 0.12345)
    ('12.3 %', '0.1235')
    """
    share = more_is_better(name.removeprefix("validation "))
    return f"{100 * value:.1f} %" if share else f"{value:.4f}"
