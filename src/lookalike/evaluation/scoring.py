"""Score a set of embeddings."""

from collections.abc import Sequence

import numpy as np

from lookalike.errors import BadInput
from lookalike.evaluation.inputs import (
    ArrayLike,
    Distance,
    check_choice,
    embeddings_of,
    labels_of,
)
from lookalike.evaluation.metrics import check_metrics, per_query
from lookalike.evaluation.ranks import Progress, Ties, ranks_of_relevant
from lookalike.evaluation.relevance import Relevance

__all__ = ["evaluate"]


def evaluate(
    embeddings: ArrayLike,
    labels: ArrayLike,
    metrics: Sequence[str] = ("recall@1", "map@r"),
    gallery: ArrayLike | None = None,
    gallery_labels: ArrayLike | None = None,
    *,
    distance: Distance = "cosine",
    ties: Ties = "worst",
    memory_mb: int = 512,
    progress: Progress | None = None,
) -> dict[str, float]:
    """The scores of ``embeddings`` by name.

    >>> evaluate([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0]], ["a", "a", "b"])
    {'recall@1': 1.0, 'map@r': 1.0}
    """
    names = tuple(metrics)
    check_metrics(names)
    check_choice(distance, Distance, "distance")
    check_choice(ties, Ties, "rule for ties")
    queries = embeddings_of(embeddings, "embeddings", distance)
    query_labels = labels_of(labels, "labels")
    if len(queries) != len(query_labels):
        raise BadInput(f"there are {len(queries)} embeddings but {len(query_labels)} labels")
    others = other_labels = None
    if gallery is not None:
        if gallery_labels is None:
            raise BadInput("a gallery needs gallery_labels")
        others = embeddings_of(gallery, "gallery embeddings", distance)
        other_labels = labels_of(gallery_labels, "gallery labels")
    relevance = Relevance(query_labels, other_labels)
    blocks = ranks_of_relevant(
        queries,
        others,
        relevance,
        distance=distance,
        ties=ties,
        memory_mb=memory_mb,
        progress=progress,
    )
    values: dict[str, list[np.ndarray]] = {name: [] for name in names}
    for block in blocks:
        for name in names:
            values[name].append(per_query(name, block))
    return {name: float(np.nanmean(np.concatenate(values[name]))) for name in names}
