"""Embeddings in the plane, so that what is near in space is near on the page."""

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.manifold import TSNE
from torch import Tensor

from lookalike.evaluation.inputs import unit_rows

Floats = NDArray[np.float64]

FEWEST_FOR_TSNE = 8
ITERATIONS = 500


def project_pca(embeddings: Tensor) -> Floats:
    """Two coordinates per row, between -1 and 1: the first two principal components."""
    return _framed(_principal(unit_rows(embeddings, torch.float64).numpy()))


def project_tsne(embeddings: Tensor, seed: int) -> Floats:
    """Two coordinates per row, between -1 and 1: t-SNE of the cosine distance, started from PCA.

    With fewer than eight points it is the PCA itself. van der Maaten and Hinton, JMLR 2008.
    """
    unit: Floats = unit_rows(embeddings, torch.float64).numpy()
    start = _principal(unit)
    if len(unit) < FEWEST_FOR_TSNE:
        return _framed(start)
    spread = start[:, 0].std()
    flat = TSNE(
        perplexity=min(30.0, (len(unit) - 1) / 3),
        metric="cosine",
        init=start / spread * 1e-4 if spread > 1e-9 else "random",
        max_iter=ITERATIONS,
        random_state=seed,
        n_jobs=1,
    ).fit_transform(unit)
    return _framed(np.asarray(flat, np.float64))


def _principal(rows: Floats) -> Floats:
    """The first two principal components; scikit-learn's PCA refuses fewer than two rows."""
    centred = rows - rows.mean(0) if len(rows) else rows
    left, scale, _ = np.linalg.svd(centred, full_matrices=False)
    flat = np.zeros((len(rows), 2))
    width = min(2, len(scale))
    flat[:, :width] = left[:, :width] * scale[:width]
    return flat


def _framed(flat: Floats) -> Floats:
    """Moved and scaled to lie between -1 and 1."""
    if not len(flat):
        return flat
    centred: Floats = flat - (flat.max(0) + flat.min(0)) / 2
    reach = float(np.abs(centred).max())
    return centred / reach if reach > 0 else centred
