"""Scores of embeddings and of untrained networks, and how the result of a run is printed."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from lookalike import evaluation
from lookalike.data import Split, Subset
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


STATES = {"raw_features": "raw features", "untrained": "before training", "test": "trained"}
"""The models that were tested, by their key in the result, in the order of the columns."""


def first_line(split: Split, epochs: int, batches: int) -> str:
    """What is about to be trained: classes, images, epochs."""
    images = f"{len(split.train.indices):,} images to train on"
    length = f"{epochs:,} epochs of {batches:,} batches" if epochs else "nothing is trained"
    return f"{split.description}; {images}; {length}"


def summary(result: Mapping[str, Any]) -> list[str]:
    """The lines that ``lookalike train`` prints about a ``result.json``; warnings come last."""
    lines = [_chosen(result)]
    if "test" in result:
        classes, images = result["test_classes"], result["test_images"]
        lines += [f"  tested on {classes} unseen classes, {images} images:", *_table(result)]
    if {"validation_chance", "test_chance"} <= result.keys():
        classes = result["validation_classes"], result["test_classes"]
        lines.append(
            f"  validation and test scores are not comparable: among {classes[0]} and "
            f"{classes[1]} classes a random order finds {_percent(result['validation_chance'])} "
            f"and {_percent(result['test_chance'])} (Recall@1)"
        )
    return lines + [f"WARNING: {sentence}" for sentence in warnings(result)]


def warnings(result: Mapping[str, Any]) -> list[str]:
    """Warnings about a training that did not help, or did harm."""
    found = []
    if result["epochs"] > 0 and result.get("chosen_epoch") == 0:
        found.append(
            "training did not help: no epoch scored higher on the validation classes than the "
            "network before training, which is therefore the model that was kept"
        )
    if lost := _below(result, "untrained"):
        found.append(f"training lost on the test classes: before it, {lost}")
    if lost := _below(result, "raw_features"):
        found.append(
            f"the network's raw features, without head and training, are better: {lost}; a smaller "
            "optim.lr or no training (train.epochs=0 model.dim=0) may help"
        )
    return found


def _below(result: Mapping[str, Any], state: str) -> str:
    """The metrics in which the tested model scores lower than another state, if most are."""
    other = result.get(state, {})
    pairs = {
        name: (round(100 * other[name], 1), round(100 * value, 1))
        for name, value in result.get("test", {}).items()
        if name in other and more_is_better(name)
    }
    lost = [
        f"{name} {before} % against {after} %"
        for name, (before, after) in pairs.items()
        if after < before
    ]
    return ", ".join(lost) if 2 * len(lost) > len(pairs) else ""


def _chosen(result: Mapping[str, Any]) -> str:
    epochs = result["epochs"]
    if "validation" not in result and "test" not in result:
        classes = result["train_classes"]
        return f"  {epochs} epochs on {classes} classes: nothing was validated or tested"
    if "validation" not in result:
        return f"  epoch {epochs}, the last: nothing was validated"
    classes = result.get("validation_classes")
    where = f" on {classes} validation classes" if classes else " on validation classes"
    scores = [f"{name} {format_score(name, v)}" for name, v in result["validation"].items()]
    return f"  chosen epoch {result['chosen_epoch']} of {epochs}, by {', '.join(scores)}{where}"


def _table(result: Mapping[str, Any]) -> list[str]:
    """One line per metric: every tested state, and the gain of training."""
    tested, states = result["test"], {key: STATES[key] for key in STATES if key in result}
    if len(states) == 1:
        states = {"test": "score"}
    rows = [["", *states.values()]]
    rows += [[name, *(format_score(name, result[key][name]) for key in states)] for name in tested]
    if "untrained" in states:
        rows[0].append("gain")
        for row, (name, value) in zip(rows[1:], tested.items(), strict=True):
            gain = value - result["untrained"][name]
            row.append(f"{100 * gain:+.1f}" if more_is_better(name) else f"{gain:+.4f}")
    first, *widths = (max(map(len, column)) for column in zip(*rows, strict=True))
    return [
        "  ".join([f"    {name:<{first}}", *map(str.rjust, cells, widths)]) for name, *cells in rows
    ]


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"
