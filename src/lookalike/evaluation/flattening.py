"""Embeddings on a plane: near in space, near on paper, as far as that can be had."""

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.manifold import TSNE
from torch import Tensor

__all__ = ["flatten", "principal_plane"]

Floats = NDArray[np.float64]

_FEWEST_FOR_TSNE = 8
_ITERATIONS = 500


def principal_plane(embeddings: Tensor) -> Floats:
    """Two coordinates for each row, between -1 and 1: the first two principal components."""
    return _framed(_principal(_unit(embeddings)))


def flatten(embeddings: Tensor, seed: int) -> Floats:
    """Two coordinates for each row: t-SNE of the cosine distance, begun from the PCA.

    The result lies between -1 and 1. With only a handful of points it is the PCA itself.
    van der Maaten and Hinton, JMLR 2008.
    """
    unit = _unit(embeddings)
    start = _principal(unit)
    if len(unit) < _FEWEST_FOR_TSNE:
        return _framed(start)
    spread = start[:, 0].std()
    flat = TSNE(
        perplexity=min(30.0, (len(unit) - 1) / 3),
        metric="cosine",
        init=start / spread * 1e-4 if spread > 1e-9 else "random",
        max_iter=_ITERATIONS,
        random_state=seed,
        n_jobs=1,
    ).fit_transform(unit)
    return _framed(np.asarray(flat, np.float64))


def _unit(embeddings: Tensor) -> Floats:
    unit: Floats = torch.nn.functional.normalize(embeddings.double(), dim=1).numpy()
    return unit


def _principal(rows: Floats) -> Floats:
    centred = rows - rows.mean(0) if len(rows) else rows
    left, scale, _ = np.linalg.svd(centred, full_matrices=False)
    flat = np.zeros((len(rows), 2))
    width = min(2, len(scale))
    flat[:, :width] = left[:, :width] * scale[:width]
    return flat


def _framed(flat: Floats) -> Floats:
    if not len(flat):
        return flat
    centred: Floats = flat - (flat.max(0) + flat.min(0)) / 2
    reach = float(np.abs(centred).max())
    return centred / reach if reach > 0 else centred
