"""Scores of embeddings and of untrained networks, and how they are printed."""

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from lookalike import evaluation
from lookalike.data import Subset
from lookalike.evaluation import Evaluation
from lookalike.evaluation.class_table import ClassTable
from lookalike.evaluation.metrics import check_metrics, more_is_better
from lookalike.evaluation.scoring import ScoreOptions
from lookalike.models.head import Head, l2_normalise

TrainingRows: TypeAlias = tuple[Tensor, NDArray[np.int64]]
"""The embeddings of the training images, and their labels."""


def needs_training(metrics: Sequence[str]) -> bool:
    """Whether one of the metrics reads the embeddings of the training images."""
    return any(metric.needs_training for metric in check_metrics(metrics))


def score(
    embeddings: Tensor,
    subset: Subset,
    metrics: tuple[str, ...],
    training: TrainingRows | None = None,
) -> dict[str, float]:
    """Scores of all against all, or of queries against a gallery; processes share the queries.

    Without ``training`` the metrics that need it are left out.
    """
    found = _evaluation(embeddings, subset, metrics, training)
    return {} if found is None else found.scores


def score_with_classes(
    embeddings: Tensor,
    subset: Subset,
    metrics: tuple[str, ...],
    training: TrainingRows | None = None,
) -> tuple[dict[str, float], ClassTable | None]:
    """What :func:`score` returns, and the scores per class behind it."""
    found = _evaluation(embeddings, subset, metrics, training)
    if found is None:
        return {}, None
    return found.scores, ClassTable.of(found, subset.class_names)


def _evaluation(
    embeddings: Tensor,
    subset: Subset,
    metrics: tuple[str, ...],
    training: TrainingRows | None,
) -> Evaluation | None:
    labels, query, gallery = subset.labels, subset.query, subset.gallery
    options: ScoreOptions = {"distributed": True}
    if training is None:
        metrics = tuple(m.name for m in check_metrics(metrics) if not m.needs_training)
    else:
        options |= {"training": training[0], "training_labels": training[1]}
    if not metrics:
        return None
    if query is None or gallery is None:
        return evaluation.score(embeddings, labels, metrics, **options)
    queries, items = (
        (embeddings[torch.from_numpy(each).to(embeddings.device)], labels[each])
        for each in (query, gallery)
    )
    return evaluation.score(*queries, metrics, *items, **options)


def to_evaluation_device(embeddings: Tensor, device: torch.device) -> Tensor:
    """The embeddings on the GPU of the run, which ranks them in blocks; else where they are."""
    return embeddings.to(device) if device.type == "cuda" else embeddings


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
def untrained_embeddings(head: Head, features: Tensor) -> dict[str, Tensor]:
    """The embeddings of a model before training, from the inputs of its head's linear layer.

    ``untrained`` is the model with its head, before the first step; ``raw_features`` are the
    network's own features, where the head changes them.
    """
    raw = l2_normalise(features) if head.normalize else features
    if not isinstance(head.linear, nn.Linear):
        return {"untrained": raw}
    projected: Tensor = head.linear(features.to(head.linear.weight)).float().cpu()
    embeddings = l2_normalise(projected) if head.normalize else projected
    return {"untrained": embeddings, "raw_features": raw}


def format_score(name: str, value: float) -> str:
    """A score as text: per cent with one decimal where it is a share, else four decimals.

    ``name`` may begin with ``validation``.

    >>> format_score("validation map@r", 0.12345), format_score("loss", 0.12345)
    ('12.3 %', '0.1235')
    """
    share = more_is_better(name.removeprefix("validation "))
    return f"{100 * value:.1f} %" if share else f"{value:.4f}"
