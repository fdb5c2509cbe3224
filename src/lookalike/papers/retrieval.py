"""The nearest neighbours of the same queries by two methods, beside each other."""

from typing import Any

import numpy as np

from lookalike.config import RunConfig
from lookalike.errors import BadInput
from lookalike.report.embeddings import picture_of, retrieve, spread
from lookalike.report.pictures import Pictures
from lookalike.runs.run import TestEmbeddings

NEIGHBOURS = 5
EACH = 3


def beside(
    names: tuple[str, str], first: TestEmbeddings, second: TestEmbeddings, config: RunConfig
) -> dict[str, Any]:
    """Compare what two methods find for the same queries.

    Args:
        names: Of the two methods.
        first: The test embeddings of the first.
        second: Those of the second, of the same images.
        config: That of the runs, whose image store is read.

    Returns:
        What the page shows: four groups of queries (right at rank 1 by both, by one of the two, by
        none), some strips of each, and the pictures of their images.

    Raises:
        BadInput: The methods were tested on different images.
    """
    if not np.array_equal(first.indices, second.indices):
        raise BadInput(f"'{names[0]}' and '{names[1]}' were tested on different images")
    found = [
        retrieve(one.embeddings, first.labels, first.query, first.gallery, NEIGHBOURS)
        for one in (first, second)
    ]
    a, b = (one.right_at_first for one in found)
    groups = []
    for title, members in {
        "Right at rank 1 by both": a & b,
        f"Right by {names[1]} only": ~a & b,
        f"Right by {names[0]} only": a & ~b,
        "Right by neither": ~a & ~b,
    }.items():
        chosen = spread(np.flatnonzero(members), EACH)
        strips = [[one.strip(at) for one in found] for at in chosen]
        groups.append({"title": title, "count": int(members.sum()), "strips": strips})
    shown = [strip for group in groups for pair in group["strips"] for strip in pair]
    places = {one.position for one in shown}
    places |= {near.position for one in shown for near in one.neighbours}
    pictures = Pictures.of_run(config, first.images)
    return {
        "names": names,
        "queries": len(a),
        "groups": groups,
        "shots": {place: picture_of(first, place, pictures) for place in sorted(places)},
        "tiny": pictures.are_tiny(first.indices[:50].tolist()),
    }
