"""Histograms of the distances of positive and of negative pairs, clean or mixed (Metrix)."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lookalike.errors import BadInput
from lookalike.evaluation.inputs import ArrayLike, embeddings_of, labels_of

BLOCK = 2048
"""Rows at a time."""

FARTHEST = 2.0
"""The distance of two opposite unit vectors."""


class Mixes(NamedTuple):
    """Mixed examples, ``share`` of an item of one class and the rest of an item of another.

    Attributes:
        embeddings: One row per mix.
        first: The class of the first item of each.
        second: The class of the second.
        share: How much of the first is in each, from 0 to 1.
    """

    embeddings: ArrayLike
    first: ArrayLike
    second: ArrayLike
    share: ArrayLike


@dataclass(frozen=True, eq=False)
class DistanceHistogram:
    """How many positive and negative pairs have which distance.

    Attributes:
        edges: [bins + 1], from 0 to 2.
        positive: [bins], the total weight of the positive pairs in each bin.
        negative: [bins], that of the negative pairs.
    """

    edges: NDArray[np.float64]
    positive: NDArray[np.float64]
    negative: NDArray[np.float64]

    def densities(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Both histograms with an area of 1, or 0 where there are no pairs."""
        width = self.edges[1] - self.edges[0]
        positive, negative = (
            counts / (max(counts.sum(), np.finfo(np.float64).tiny) * width)
            for counts in (self.positive, self.negative)
        )
        return positive, negative


def distance_histogram(
    embeddings: ArrayLike, labels: ArrayLike, mixes: Mixes | None = None, *, bins: int = 100
) -> DistanceHistogram:
    """Count the Euclidean distances of unit vectors by positive and negative pairs, in blocks.

    Args:
        embeddings: One row per item; its length does not matter.
        labels: One label per item.
        mixes: None: all pairs of two items are counted, each once. Otherwise all pairs of an item
            and a mix that contains its class: a mix with the share y of that class counts y as
            a positive and 1 - y as a negative of the item, as in the mixed loss.
        bins: Number of bins of equal width between 0 and 2.

    Returns:
        Both histograms.

    Raises:
        BadInput: The embeddings, labels or mixes do not fit together.

    >>> distance_histogram([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]], [0, 1, 0], bins=2).positive
    array([1., 0.])
    """
    if bins < 1:
        raise BadInput(f"bins must be at least 1, not {bins}")
    items = embeddings_of(embeddings, "embeddings")
    names = _classes(labels, "labels", len(items))
    others, first, second, share = items, names, names, np.ones(len(names))
    if mixes is not None:
        others = embeddings_of(mixes.embeddings, "mixed embeddings").to(items.device)
        first = _classes(mixes.first, "labels of the first", len(others))
        second = _classes(mixes.second, "labels of the second", len(others))
        share = _shares(mixes.share, len(others))
        if others.shape[1] != items.shape[1]:
            raise BadInput(
                f"embeddings have {items.shape[1]} columns and mixed ones {others.shape[1]}"
            )
    codes = np.unique(np.concatenate([names, first, second]), return_inverse=True)[1]
    own, one, two = (
        torch.from_numpy(part).to(items.device)
        for part in np.split(codes, [len(names), len(names) + len(first)])
    )
    part_of_first = torch.from_numpy(share).to(items.device)
    counts = torch.zeros(2, bins, dtype=torch.float64, device=items.device)
    for top in range(0, len(items), BLOCK):
        rows = slice(top, top + BLOCK)
        # a clean pair is counted once: with the later of the two as candidate
        for left in range(0 if mixes is not None else top, len(others), BLOCK):
            columns = slice(left, left + BLOCK)
            in_first = own[rows, None] == one[columns]
            in_second = own[rows, None] == two[columns]
            label = torch.where(in_first, part_of_first[columns], 0.0)
            if mixes is None:
                valid = torch.ones_like(in_first).triu_(1) if left == top else None
            else:
                label += torch.where(in_second, 1 - part_of_first[columns], 0.0)
                valid = in_first | in_second
            places = _bins(items[rows], others[columns], bins)
            if valid is not None:
                places, label = places[valid], label[valid]
            places, label = places.flatten(), label.flatten()
            counts[0] += torch.bincount(places, label, bins)
            counts[1] += torch.bincount(places, 1 - label, bins)
    edges = np.linspace(0, FARTHEST, bins + 1)
    return DistanceHistogram(edges, *counts.cpu().numpy())


def _bins(rows: Tensor, columns: Tensor, bins: int) -> Tensor:
    """The bin of the distance of each row to each column."""
    squares = 2 - 2 * (rows.double() @ columns.double().T)
    places = squares.clamp_min_(0).sqrt_().mul_(bins / FARTHEST).long()
    return places.clamp_max_(bins - 1)


def _classes(values: ArrayLike, what: str, number: int) -> NDArray[np.generic]:
    found = labels_of(values, what)
    if found.ndim == 2:
        raise BadInput(f"{what} must be one label per item, not a multi-hot table")
    if len(found) != number:
        raise BadInput(f"there are {number} embeddings but {len(found)} {what}")
    return found


def _shares(values: ArrayLike, number: int) -> NDArray[np.float64]:
    found = np.asarray(values.cpu() if isinstance(values, Tensor) else values, np.float64)
    if found.shape != (number,) or not ((found >= 0) & (found <= 1)).all():
        raise BadInput(f"the shares of mixes must be {number} numbers from 0 to 1")
    return found
