"""The nearest neighbours of the same queries by two methods, beside each other."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from lookalike.config import RunConfig
from lookalike.errors import BadInput
from lookalike.evaluation import nearest
from lookalike.report.embeddings import Neighbour, Strip, picture_of, spread
from lookalike.report.pictures import Pictures
from lookalike.runs.run import TestEmbeddings

__all__ = ["Beside", "Group", "beside"]

Ints = NDArray[np.int64]

NEIGHBOURS = 5
EACH = 3
MOST_QUERIES = 4_000


@dataclass(frozen=True)
class Group:
    """Queries of one kind: who finds their class at rank 1."""

    title: str
    count: int
    """How many queries there are of the kind."""
    strips: tuple[tuple[Strip, Strip], ...]
    """Of some of them, evenly spread over the test set: what each method finds."""


@dataclass(frozen=True)
class Beside:
    """The page's part with pictures of two methods."""

    names: tuple[str, str]
    queries: int
    groups: tuple[Group, ...]
    shots: Mapping[int, Mapping[str, str]]
    tiny: bool


def beside(
    names: tuple[str, str], first: TestEmbeddings, second: TestEmbeddings, config: RunConfig
) -> Beside:
    """Compare what two methods find for the same queries.

    Args:
        names: Of the two methods.
        first: The test embeddings of the first.
        second: Those of the second, of the same images.
        config: That of the runs, whose image store is read.

    Returns:
        Four groups of queries: right at rank 1 by both, by one of the two, by none.

    Raises:
        BadInput: The methods were tested on different images.
    """
    if not np.array_equal(first.indices, second.indices):
        raise BadInput(f"'{names[0]}' and '{names[1]}' were tested on different images")
    labels = first.labels
    gallery = np.arange(len(labels)) if first.gallery is None else np.flatnonzero(first.gallery)
    counts = np.bincount(labels[gallery], minlength=labels.max() + 1)
    answers = counts[labels] - np.isin(np.arange(len(labels)), gallery)
    possible = (answers > 0) if first.query is None else (answers > 0) & first.query
    queries = spread(np.flatnonzero(possible), MOST_QUERIES)
    found = [_neighbours(one, queries, gallery) for one in (first, second)]
    right = [labels[near[:, 0]] == labels[queries] for near, _ in found]
    kinds = {
        "Right at rank 1 by both": right[0] & right[1],
        f"Right by {names[1]} only": ~right[0] & right[1],
        f"Right by {names[0]} only": right[0] & ~right[1],
        "Right by neither": ~right[0] & ~right[1],
    }
    groups = []
    for title, members in kinds.items():
        chosen = spread(np.flatnonzero(members), EACH)
        strips = tuple(
            (_strip(at, queries, labels, *found[0]), _strip(at, queries, labels, *found[1]))
            for at in chosen
        )
        groups.append(Group(title, int(members.sum()), strips))
    shown = [strip for group in groups for pair in group.strips for strip in pair]
    places = {one.position for one in shown}
    places |= {near.position for one in shown for near in one.neighbours}
    pictures = Pictures.of_run(config, first.images)
    return Beside(
        names,
        len(queries),
        tuple(groups),
        {place: picture_of(first, place, pictures) for place in sorted(places)},
        pictures.are_tiny(first.indices[:50].tolist()),
    )


def _neighbours(
    tested: TestEmbeddings, queries: Ints, gallery: Ints
) -> tuple[Ints, NDArray[np.float32]]:
    """The nearest images of the gallery to each query, without the query itself."""
    pool = tested.embeddings[torch.from_numpy(gallery)]
    similarity, at = nearest(tested.embeddings[torch.from_numpy(queries)], pool, NEIGHBOURS + 1)
    near = gallery[at.numpy()]
    # the query itself, else the last one, is left out
    out = np.where((near == queries[:, None]).any(1), (near == queries[:, None]).argmax(1), -1)
    keep = np.ones(near.shape, bool)
    keep[np.arange(len(near)), out] = False
    shape = (len(near), near.shape[1] - 1)
    return near[keep].reshape(shape), similarity.numpy()[keep].reshape(shape)


def _strip(
    at: int, queries: Ints, labels: Ints, near: Ints, similarity: NDArray[np.float32]
) -> Strip:
    query = int(queries[at])
    neighbours = tuple(
        Neighbour(int(item), float(value), bool(labels[item] == labels[query]))
        for item, value in zip(near[at], similarity[at], strict=True)
    )
    return Strip(query, neighbours, 1)
