"""Why two pictures are similar: the contribution of each place to their similarity."""

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from lookalike.inference.embedder import Embedder
from lookalike.inference.encoder import Vectors


def attribute(embedder: Embedder, image: Image.Image, vector: Vectors) -> Vectors:
    """How much each place of ``image`` contributes to its cosine similarity with ``vector``.

    With the feature map F and e = head(F) before normalisation, s = <e, v> / |e|, and the share of
    place p is sum_c F[c, p] ds/dF[c, p] with |e| held fixed. For average, maximum and generalised
    mean pooling the sum of the shares is the similarity, except for the head's bias. That is
    Grad-CAM (Selvaraju et al., ICCV 2017) with a weight for each place (Draelos and Carin, 2020) of
    a similarity instead of a class (Stylianou et al., WACV 2019).

    A map of a few cells is coarse, so the picture is also shifted by half a cell, right, down and
    both: the four maps, interlaced, have twice the rows and columns.
    """
    batch = embedder.batch([embedder.prepare(image)])
    maps = shares(embedder, batch, vector)
    rows, columns = maps.shape[1:]
    if rows > 1 and columns > 1:
        down, right = batch.shape[2] // (2 * rows), batch.shape[3] // (2 * columns)
        moved = torch.cat([shifted(batch, y, x) for y in (0, down) for x in (0, right)])
        maps = shares(embedder, moved, vector).reshape(2, 2, rows, columns) / 4
        return maps.permute(2, 0, 3, 1).reshape(2 * rows, 2 * columns).numpy()
    return maps[0].numpy()


def shares(embedder: Embedder, batch: Tensor, vector: Vectors) -> Tensor:
    """Activation times gradient, summed over channels: [B, rows, columns]."""
    model = embedder.model
    with torch.no_grad():
        features = model.features(batch)
    features = features.detach().requires_grad_()
    embeddings = model.head.project(features).float()
    lengths = embeddings.detach().norm(dim=1).clamp(min=1e-12)
    similarity = embeddings @ torch.from_numpy(np.array(vector, np.float32)) / lengths
    (gradient,) = torch.autograd.grad(similarity.sum(), features)
    return (features.detach() * gradient).sum(1).float()


def shifted(batch: Tensor, down: int, right: int) -> Tensor:
    """The content moved up and left by so many pixels; the last ones are repeated behind it.

    Cell (i, j) then sees what lies half a cell below and to the right of it.
    """
    height, width = batch.shape[2:]
    rows = (torch.arange(height) + down).clamp(max=height - 1)
    columns = (torch.arange(width) + right).clamp(max=width - 1)
    return batch[:, :, rows][:, :, :, columns].contiguous(memory_format=torch.channels_last)


def seen_part(embedder: Embedder, image: Image.Image) -> tuple[float, float, float, float]:
    """Left, top, width and height of the network's input, as fractions of the picture."""
    height, width = embedder.preset.seen_part(image.height, image.width)
    return (1 - width) / 2, (1 - height) / 2, width, height
