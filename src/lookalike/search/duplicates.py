"""Near-duplicates: groups of pictures that are nearly the same."""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from lookalike.search.index import Index
from lookalike.search.items import Item

__all__ = ["Group", "find_duplicates"]

NEIGHBOURS = 20
AT_A_TIME = 256


@dataclass(frozen=True)
class Group:
    """Pictures that hang together by pairs above the threshold; ``similarity`` is the least."""

    items: tuple[Item, ...]
    similarity: float

    @property
    def labels_differ(self) -> bool:
        """Whether one of them must be wrongly labelled."""
        return len({item.label for item in self.items}) > 1


def find_duplicates(
    index: Index, threshold: float, progress: Callable[[int, int], None] | None = None
) -> list[Group]:
    """Groups of pictures with a cosine of ``threshold`` or more, the most similar first."""
    ids = index.ids
    pairs: list[tuple[int, int, float]] = []
    for start in range(0, len(ids), AT_A_TIME):
        rows = np.asarray(index.vectors[start : start + AT_A_TIME])
        for row, hits in enumerate(index.search(rows, NEIGHBOURS + 1), start):
            for hit in hits:
                if hit.id != ids[row] and hit.similarity >= threshold:
                    pairs.append((row, int(np.searchsorted(ids, hit.id)), hit.similarity))
        if progress:
            progress(min(start + AT_A_TIME, len(ids)), len(ids))
    if not pairs:
        return []
    left, right, similar = zip(*pairs, strict=True)
    graph = coo_matrix((np.ones(len(pairs)), (left, right)), shape=(len(ids), len(ids)))
    part = connected_components(graph, directed=False)[1]
    members: dict[int, set[int]] = defaultdict(set)
    least: dict[int, float] = {}
    for a, b, similarity in zip(left, right, similar, strict=True):
        members[part[a]] |= {a, b}
        least[part[a]] = min(similarity, least.get(part[a], 1.0))
    groups = [
        Group(tuple(index.item(int(ids[row])) for row in sorted(rows)), least[number])
        for number, rows in members.items()
    ]
    return sorted(groups, key=lambda group: (-group.similarity, group.items[0].path))
