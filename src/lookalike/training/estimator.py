"""Metric learning on arrays of features, as a scikit-learn estimator."""

from collections.abc import Iterator
from copy import deepcopy
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor

from lookalike import losses, miners, samplers
from lookalike.evaluation import evaluate
from lookalike.models import lda, pca
from lookalike.models.head import Head
from lookalike.training.objective import Objective, fill_loss_sizes


class MetricLearner(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """A linear map to unit vectors in which items of one class are close.

    Args:
        loss: The name of the loss (``lookalike.losses.names()``).
        dim: The size of the embedding; at most the number of features.
        loss_settings: The arguments of the loss.
        miner: The name of the miner (``lookalike.miners.names()``); None: no miner.
        miner_settings: The arguments of the miner.
        start: The initial map: "pca", "lda" or "random".
        shrink: The shrinkage of "lda".
        epochs: Passes over the data.
        batch_size: Items per batch.
        per_class: Items per class in a batch.
        lr: The learning rate of the map.
        loss_lr: The learning rate of the loss's parameters; None: ``lr``.
        weight_decay: The weight decay of the map.
        random_state: Seed or NumPy random state.

    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> learner = MetricLearner(loss="multi-similarity", dim=2, epochs=5).fit(X, y)
    >>> learner.transform(X).shape
    (150, 2)
    """

    def __init__(
        self,
        loss: str = "multi-similarity",
        dim: int = 128,
        *,
        loss_settings: dict[str, Any] | None = None,
        miner: str | None = None,
        miner_settings: dict[str, Any] | None = None,
        start: str = "pca",
        shrink: float = 1.0,
        epochs: int = 20,
        batch_size: int = 128,
        per_class: int = 4,
        lr: float = 1e-3,
        loss_lr: float | None = None,
        weight_decay: float = 1e-4,
        random_state: Any = 0,
    ) -> None:
        self.loss = loss
        self.dim = dim
        self.loss_settings = loss_settings
        self.miner = miner
        self.miner_settings = miner_settings
        self.start = start
        self.shrink = shrink
        self.epochs = epochs
        self.batch_size = batch_size
        self.per_class = per_class
        self.lr = lr
        self.loss_lr = loss_lr
        self.weight_decay = weight_decay
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn the map from features ``X`` [n, features] and classes ``y`` [n]."""
        if self.start not in ("pca", "lda", "random"):
            raise ValueError(f"start must be 'pca', 'lda' or 'random', not {self.start!r}")
        X, y = validate_data(self, X, y, dtype=np.float32, ensure_min_samples=2)
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        seed = int(check_random_state(self.random_state).randint(2**31))
        rows, labels = torch.from_numpy(X), torch.from_numpy(codes.astype(np.int64))
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self._head(rows, labels)
            self._learn(rows, labels, seed)
        return self

    def transform(self, X: ArrayLike) -> NDArray[np.float32]:
        """The embeddings [n, dim] of features ``X``, each of length one."""
        check_is_fitted(self, "head_")
        X = validate_data(self, X, dtype=np.float32, reset=False)
        head = deepcopy(self.head_).double()  # so that a row's embedding does not depend on others
        with torch.no_grad():
            embeddings: Tensor = head(torch.from_numpy(X).double())
        return embeddings.float().numpy()

    def score(self, X: ArrayLike, y: ArrayLike) -> float:
        """Recall@1: the share of items whose nearest other item is of their class."""
        return evaluate(self.transform(X), np.asarray(y), ("recall@1",))["recall@1"]

    def _head(self, rows: Tensor, labels: Tensor) -> None:
        dim = min(self.dim, rows.shape[1])
        self.head_ = Head(rows.shape[1], dim=dim)
        self._n_features_out = dim
        if self.start == "pca":
            self.head_.start_from(*pca(rows, dim))
        elif self.start == "lda":
            self.head_.start_from(*lda(rows, labels, dim, self.shrink))

    def _learn(self, rows: Tensor, labels: Tensor, seed: int) -> None:
        settings = fill_loss_sizes(
            self.loss, self.loss_settings or {}, len(self.classes_), self.head_.dim
        )
        loss = losses.create(self.loss, **settings)
        miner = miners.create(self.miner, **(self.miner_settings or {})) if self.miner else None
        objective = Objective(loss, miner)
        own: dict[str, Any] = {"params": list(self.head_.parameters())}
        learned = {"params": list(loss.parameters()), "lr": self.loss_lr or self.lr}
        groups = [own, learned | {"weight_decay": 0.0}]
        optimizer = torch.optim.AdamW(groups, lr=self.lr, weight_decay=self.weight_decay)
        for batch in self._batches(labels, seed):
            value, _ = objective(self.head_, rows[batch], labels[batch])
            optimizer.zero_grad()
            value.backward()
            optimizer.step()

    def _batches(self, labels: Tensor, seed: int) -> Iterator[Tensor]:
        """All items if they fit into one batch, else several items of several classes."""
        classes = min(self.batch_size // self.per_class, len(self.classes_))
        size = classes * self.per_class
        if len(labels) <= self.batch_size or not size:
            for _ in range(self.epochs):
                yield torch.arange(len(labels))
            return
        sampler = samplers.PerClassSampler(labels, size, self.per_class, seed=seed)
        for _ in range(self.epochs):
            yield from map(torch.tensor, sampler)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.transformer_tags.preserves_dtype = ["float32"]
        return tags
