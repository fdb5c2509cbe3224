"""Queries with their nearest neighbours: some that are right, and the worst mistakes."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lookalike.evaluation import nearest

__all__ = ["Gallery", "Neighbour", "Strip", "choose_strips"]

Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]

MOST_QUERIES = 4_000
_ROWS_AT_A_TIME = 512


@dataclass(frozen=True)
class Neighbour:
    """A test image near a query; ``position`` counts in the test set."""

    position: int
    similarity: float
    right: bool


@dataclass(frozen=True)
class Strip:
    """A query and its neighbours, nearest first; ``first_right`` is the rank of its class."""

    position: int
    neighbours: tuple[Neighbour, ...]
    first_right: int


@dataclass(frozen=True)
class Gallery:
    """What one method finds: good queries spread over the test set, and the worst ones.

    ``looked_at`` of ``possible`` queries were searched to choose them; ``wrong`` of those have
    another class at rank 1.
    """

    right: tuple[Strip, ...]
    worst: tuple[Strip, ...]
    wrong: int
    looked_at: int
    possible: int


def choose_strips(
    embeddings: Tensor,
    labels: Ints,
    query: Mask | None = None,
    gallery: Mask | None = None,
    *,
    each: int = 6,
    neighbours: int = 8,
) -> Gallery:
    """Choose ``each`` right and ``each`` worst queries, from different classes, without chance.

    A query counts when the gallery holds another image of its class. ``worst`` are those whose
    class comes latest in the ranking. ``query`` and ``gallery`` mark the two parts of the test
    set where it has two; None: every image is both, and no image is its own neighbour.
    """
    items = np.arange(len(labels)) if gallery is None else np.flatnonzero(gallery)
    possible = _possible(labels, query, items)
    looked_at = _spread(possible, MOST_QUERIES)
    if not len(looked_at):
        return Gallery((), (), 0, 0, 0)
    near, similar = _near(embeddings, looked_at, items, neighbours + 1)
    itself = near == looked_at[:, None]
    nearest_other = near[np.arange(len(near)), itself[:, 0].astype(np.int64)]
    right_at_first = labels[nearest_other] == labels[looked_at]
    wrong = np.flatnonzero(~right_at_first)
    first_right = np.ones(len(looked_at), np.int64)
    first_right[wrong] = _first_right(embeddings, labels, looked_at[wrong], items)

    def strip(at: int) -> Strip:
        return Strip(
            int(looked_at[at]),
            tuple(
                Neighbour(int(item), float(value), bool(labels[item] == labels[looked_at[at]]))
                for item, value in zip(near[at], similar[at], strict=True)
                if item != looked_at[at]
            )[:neighbours],
            int(first_right[at]),
        )

    good = _one_a_class(np.flatnonzero(right_at_first), labels[looked_at])
    latest = wrong[np.argsort(-first_right[wrong], kind="stable")]
    return Gallery(
        right=tuple(map(strip, _spread(good, each))),
        worst=tuple(map(strip, _one_a_class(latest, labels[looked_at])[:each])),
        wrong=len(wrong),
        looked_at=len(looked_at),
        possible=len(possible),
    )


def _possible(labels: Ints, query: Mask | None, items: Ints) -> Ints:
    """Queries that have something to find; no image counts as its own answer."""
    counts = np.bincount(labels[items], minlength=labels.max(initial=-1) + 1)
    answers = counts[labels] - np.isin(np.arange(len(labels)), items)
    return np.flatnonzero((answers > 0) if query is None else (answers > 0) & query)


def _spread(values: Ints, count: int) -> Ints:
    """At most ``count`` of ``values``, evenly spaced from the first to the last."""
    if len(values) <= count:
        return values
    return values[np.linspace(0, len(values) - 1, count).round().astype(np.int64)]


def _one_a_class(positions: Ints, labels: Ints) -> Ints:
    """The first of each class, in the order given."""
    _, first = np.unique(labels[positions], return_index=True)
    return positions[np.sort(first)]


def _near(
    embeddings: Tensor, queries: Ints, items: Ints, count: int
) -> tuple[Ints, NDArray[np.float32]]:
    """Positions and similarities of the nearest ``items``; a query may be among its own."""
    similarities, found = nearest(
        embeddings[torch.from_numpy(queries)], embeddings[torch.from_numpy(items)], count
    )
    return items[found.numpy()], similarities.numpy()


def _first_right(embeddings: Tensor, labels: Ints, queries: Ints, items: Ints) -> Ints:
    """The rank of the most similar item of each query's own class."""
    unit = torch.nn.functional.normalize(embeddings.float(), dim=1)
    pool = unit[torch.from_numpy(items)]
    ranks = [
        _ranks_of_best(unit[torch.from_numpy(part)] @ pool.T, part, items, labels)
        for part in _blocks(queries)
    ]
    return np.concatenate(ranks) if ranks else np.empty(0, np.int64)


def _ranks_of_best(similarity: Tensor, queries: Ints, items: Ints, labels: Ints) -> Ints:
    same = torch.from_numpy(labels[queries][:, None] == labels[items][None])
    itself = torch.from_numpy(queries[:, None] == items[None])
    best = similarity.masked_fill(~same | itself, -torch.inf).amax(1, keepdim=True)
    above: Ints = ((similarity > best) & ~same).sum(1).numpy()
    # Wrong at rank 1 although nothing is strictly nearer: an equally similar item came first.
    return np.maximum(above + 1, 2)


def _blocks(queries: Ints) -> Iterable[Ints]:
    for start in range(0, len(queries), _ROWS_AT_A_TIME):
        yield queries[start : start + _ROWS_AT_A_TIME]
