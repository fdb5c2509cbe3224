"""A flat map of test embeddings: which points are shown, and where they lie."""

import numpy as np
from numpy.typing import NDArray

from lookalike.evaluation.projection import project_tsne

__all__ = ["choose_points", "project_tsne"]

Ints = NDArray[np.int64]


def choose_points(labels: Ints, seed: int, classes: int = 36, per_class: int = 12) -> Ints:
    """Positions of a readable part of the test set: some classes, some images of each.

    Classes with one image are left out while there are others: they have nothing to be near to.
    """
    rng = np.random.default_rng(seed)
    names, counts = np.unique(labels, return_counts=True)
    names = names[counts > 1] if (counts > 1).any() else names
    chosen = rng.permutation(names)[:classes]
    parts = [rng.permutation(np.flatnonzero(labels == name))[:per_class] for name in chosen]
    return np.sort(np.concatenate(parts)) if parts else np.empty(0, np.int64)
