"""What needs no training: the network's features, reduced by principal components, or by LDA.

A method that does not beat shrunk LDA of the same size has learned nothing new.
"""

import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from lookalike import models
from lookalike.data import Split, Subset
from lookalike.errors import LookalikeError
from lookalike.models.head import l2_normalise
from lookalike.training.score import score

__all__ = ["SHRINKS", "FoldFeatures", "baselines", "final_scores", "tested"]

SHRINKS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
"""Of the within-class covariance of LDA; the best on validation classes is taken."""

Project = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class FoldFeatures:
    """One fold, and the features that go into the head, by subset."""

    split: Split
    features: Callable[[Subset], Tensor]


def baselines(
    folds: Sequence[FoldFeatures], dim: int, metric: str, metrics: tuple[str, ...]
) -> list[dict[str, Any]]:
    """Raw features, PCA and LDA to ``dim``: validation and test scores, one after the other.

    LDA's shrink is chosen on validation classes, before the test set is handed out. ``dim`` 0
    leaves only the raw features.
    """
    kinds: dict[str, Callable[[], tuple[list[Project], dict[str, float]]]] = {
        "raw-features": lambda: ([l2_normalise for _ in folds], {}),
    }
    if dim:
        kinds["pca"] = lambda: ([pca(fold, dim) for fold in folds], {})
        kinds["lda"] = lambda: chosen_lda(folds, dim, metric)
    made = []
    for name, make in kinds.items():
        begun = time.monotonic()
        projects, parameters = make()
        validation = [
            validated(fold, project, metric) for fold, project in zip(folds, projects, strict=True)
        ]
        made.append((name, projects, parameters, validation, time.monotonic() - begun))
    tests = [fold.split.final_test() for fold in folds]
    known = [fold.features(test) for fold, test in zip(folds, tests, strict=True)]
    rows = []
    for name, projects, parameters, validation, seconds in made:
        begun = time.monotonic()
        embedded = [project(rows) for project, rows in zip(projects, known, strict=True)]
        separate, together = final_scores(embedded, tests[0], metrics)
        rows.append(
            {
                "baseline": name,
                "dim": embedded[0].shape[1],
                "parameters": parameters,
                "validation": validation,
                "separate": separate,
                "concatenated": together,
                "seconds": round(seconds + time.monotonic() - begun, 3),
            }
        )
    return rows


def final_scores(
    embedded: Sequence[Tensor], test: Subset, metrics: tuple[str, ...]
) -> tuple[list[dict[str, float]], dict[str, float]]:
    """The scores of each model's unit vectors, and of all of them side by side.

    Models that are all the same (raw features) are scored once: side by side they rank the same.
    """
    if all(torch.equal(one, embedded[0]) for one in embedded[1:]):
        found = tested(embedded[0], test, metrics)
        return [found] * len(embedded), found
    together = tested(torch.cat(list(embedded), 1), test, metrics)
    return [tested(one, test, metrics) for one in embedded], together


def chosen_lda(
    folds: Sequence[FoldFeatures], dim: int, metric: str
) -> tuple[list[Project], dict[str, float]]:
    """LDA with the shrink that did best on the validation classes of all folds."""
    best: tuple[float, float, list[Project]] | None = None
    families = [discriminants(fold) for fold in folds]
    for shrink in SHRINKS:
        projects = [linear(*family.shrunk(dim, shrink)) for family in families]
        value = statistics.fmean(
            validated(fold, project, metric) for fold, project in zip(folds, projects, strict=True)
        )
        if best is None or value > best[0]:
            best = value, shrink, projects
    if best is None or math.isnan(best[0]):
        raise LookalikeError("LDA gave no number on the validation classes")
    return best[2], {"shrink": best[1]}


def pca(fold: FoldFeatures, dim: int) -> Project:
    """Principal components of the training classes."""
    return linear(*models.pca(fold.features(fold.split.train), dim))


def discriminants(fold: FoldFeatures) -> models.Discriminants:
    """Of the training classes."""
    train = fold.split.train
    return models.Discriminants(fold.features(train), torch.from_numpy(train.labels))


def linear(weight: Tensor, bias: Tensor) -> Project:
    """Features to unit vectors by a linear layer."""
    return lambda features: l2_normalise(features @ weight.T + bias)


def validated(fold: FoldFeatures, project: Project, metric: str) -> float:
    """The score on the validation classes of a fold."""
    subset = fold.split.validation
    if subset is None:
        raise LookalikeError("a study needs validation classes")
    return tested(project(fold.features(subset)), subset, (metric,))[metric]


def tested(embeddings: Tensor, subset: Subset, metrics: tuple[str, ...]) -> dict[str, float]:
    """The scores of a subset's embeddings."""
    return score(embeddings, subset.labels, subset.query, subset.gallery, metrics)
