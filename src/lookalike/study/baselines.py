"""Baselines without training: the network's features, raw, or reduced by PCA or LDA.

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
from lookalike.evaluation.class_table import ClassTable
from lookalike.models.head import l2_normalise
from lookalike.study.classes import RowClasses
from lookalike.training.score import TrainingRows, needs_training, score, score_with_classes

SHRINKS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
"""Shrinkages of LDA's within-class covariance; the best on validation classes is used."""

Projection = Callable[[Tensor], Tensor]
"""Features to unit vectors."""


@dataclass(frozen=True)
class FoldFeatures:
    """One fold, and the input features of the head by subset."""

    split: Split
    features: Callable[[Subset], Tensor]

    def pca(self, dim: int) -> Projection:
        """Principal components of the training classes; all of them where ``dim`` is more."""
        features = self.features(self.split.train)
        return _linear(*models.pca(features, min(dim, features.shape[1])))

    def discriminants(self) -> models.Discriminants:
        """LDA of the training classes, for any shrinkage."""
        train = self.split.train
        return models.Discriminants(self.features(train), torch.from_numpy(train.labels))

    def validate(self, projection: Projection, metric: str) -> float:
        """The score on the validation classes."""
        subset = self.split.validation
        if subset is None:
            raise LookalikeError("a study needs validation classes")
        return score(projection(self.features(subset)), subset, (metric,))[metric]


def baselines(
    folds: Sequence[FoldFeatures], dim: int, metric: str, metrics: tuple[str, ...]
) -> tuple[list[dict[str, Any]], dict[str, RowClasses]]:
    """Raw features, PCA and LDA to ``dim``: validation and test scores, and by name by class.

    LDA's shrinkage is chosen on validation classes, before the test set is read; without any
    (``protocol.name=paper``) there is no LDA. With ``dim`` 0 there are only the raw features.
    """
    validated = all(fold.split.validation is not None for fold in folds)
    kinds: dict[str, Callable[[], tuple[list[Projection], dict[str, float]]]] = {
        "raw-features": lambda: ([l2_normalise for _ in folds], {}),
    }
    if dim:
        kinds["pca"] = lambda: ([fold.pca(dim) for fold in folds], {})
        if validated:
            kinds["lda"] = lambda: _best_lda(folds, dim, metric)
    made = []
    for name, make in kinds.items():
        begun = time.monotonic()
        projections, parameters = make()
        pairs = zip(folds, projections, strict=True)
        validation = [f.validate(p, metric) for f, p in pairs] if validated else []
        made.append((name, projections, parameters, validation, time.monotonic() - begun))
    tests = [fold.split.final_test() for fold in folds]
    features = [fold.features(test) for fold, test in zip(folds, tests, strict=True)]
    rows, classes = [], {}
    for name, projections, parameters, validation, seconds in made:
        begun = time.monotonic()
        embedded = [project(rows) for project, rows in zip(projections, features, strict=True)]
        training = [
            (project(fold.features(fold.split.train)), fold.split.train.labels)
            for project, fold in zip(projections, folds, strict=True)
            if needs_training(metrics)
        ]
        found = final_scores(embedded, tests[0], metrics, training)
        rows.append(
            {
                "baseline": name,
                "dim": embedded[0].shape[1],
                "parameters": parameters,
                "validation": validation,
                "separate": found.separate,
                "concatenated": found.concatenated,
                "seconds": round(seconds + time.monotonic() - begun, 3),
            }
        )
        if found.classes.separate:
            classes[name] = found.classes
    return rows, classes


@dataclass(frozen=True)
class FinalScores:
    """The test scores of each fold's model and of their concatenated embeddings, and by class."""

    separate: list[dict[str, float]]
    concatenated: dict[str, float]
    classes: RowClasses


def final_scores(
    embedded: Sequence[Tensor],
    test: Subset,
    metrics: tuple[str, ...],
    training: Sequence[TrainingRows] = (),
) -> FinalScores:
    """The scores of each model's unit vectors, and of all of them concatenated.

    Equal embeddings (raw features) are scored once: concatenated they rank the same. Metrics that
    need the training images have no concatenated value: each fold has its own training classes.
    """
    if not training and all(torch.equal(one, embedded[0]) for one in embedded[1:]):
        found = [score_with_classes(embedded[0], test, metrics)] * len(embedded)
        joined = found[0]
    else:
        known: Sequence[TrainingRows | None] = training or [None] * len(embedded)
        pairs = zip(embedded, known, strict=True)
        found = [score_with_classes(one, test, metrics, rows) for one, rows in pairs]
        joined = found[0]
        if len(found) > 1:
            joined = score_with_classes(torch.cat(list(embedded), 1), test, metrics)
    tables = {(0, fold): table for fold, (_, table) in enumerate(found) if table is not None}
    together: dict[int, ClassTable] = {}
    if joined[1] is not None and len(found) > 1:
        together[0] = joined[1]
    return FinalScores([scores for scores, _ in found], joined[0], RowClasses(tables, together))


def best_shrink(folds: Sequence[FoldFeatures], dim: int, metric: str) -> float:
    """The shrinkage of LDA that is best on the validation classes of all folds."""
    return _best_lda(folds, dim, metric)[1]["shrink"]


def _best_lda(
    folds: Sequence[FoldFeatures], dim: int, metric: str
) -> tuple[list[Projection], dict[str, float]]:
    """LDA with the shrinkage that is best on the validation classes of all folds."""
    families = [fold.discriminants() for fold in folds]
    best: tuple[float, float, list[Projection]] | None = None
    for shrink in SHRINKS:
        projections = [
            _linear(*family.shrunk(min(dim, family.rows.shape[1]), shrink)) for family in families
        ]
        scores = [f.validate(p, metric) for f, p in zip(folds, projections, strict=True)]
        value = statistics.fmean(scores)
        if best is None or value > best[0]:
            best = value, shrink, projections
    if best is None or math.isnan(best[0]):
        raise LookalikeError("LDA gave no number on the validation classes")
    return best[2], {"shrink": best[1]}


def _linear(weight: Tensor, bias: Tensor) -> Projection:
    return lambda features: l2_normalise(features @ weight.T + bias)
