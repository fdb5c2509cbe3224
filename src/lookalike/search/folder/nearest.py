"""The nearest of the selected rows of segments: by cells where a segment has them, else exactly.

A filter is applied inside the search. The cells that hold none of the chosen rows are not visited,
and the nearest of the others are, until as many rows have been compared as without a filter;
where a filter leaves few rows, these are compared one and all. So its recall is that of the search
without a filter, wherever the chosen rows lie.
"""

from collections.abc import Sequence

import numpy as np

from lookalike.inference.encoder import Vectors
from lookalike.search.folder import cells, exact
from lookalike.search.folder.cells import Cells
from lookalike.search.folder.segment import Ints
from lookalike.search.folder.selection import Selection

FEW = 5_000
"""So many rows are compared exactly: no cells are quicker."""
WIDER = 2
"""With a filter that leaves little, so many times the rows of a search without one are compared."""


def nearest(
    selections: Sequence[Selection], queries: Vectors, k: int, all_rows: bool
) -> tuple[Vectors, Ints]:
    """Similarities and ids [queries, k or as many as there are], nearest first.

    With ``all_rows`` every picture is compared.
    """
    chosen = [one for one in selections if one.count]
    k = min(k, sum(one.count for one in chosen))
    if not k:
        return np.empty((len(queries), 0), np.float32), np.empty((len(queries), 0), np.int64)
    parts = []
    for one in chosen:
        similar, rows = _in_segment(one, queries, min(k, one.count), all_rows)
        parts.append((similar, one.segment.ids_at(rows)))
    if len(parts) == 1:
        return parts[0]
    similar, ids = (np.concatenate(columns, 1) for columns in zip(*parts, strict=True))
    order = np.argsort(-similar, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(similar, order, 1), np.take_along_axis(ids, order, 1)


def _in_segment(
    chosen: Selection, queries: Vectors, k: int, all_rows: bool
) -> tuple[Vectors, Ints]:
    """Similarities and rows of the ``k`` nearest of the chosen rows of a segment."""
    segment, bits = chosen.segment, chosen.bits
    fast = None if all_rows or chosen.count <= min(FEW, cells.EXACT_BELOW // 10) else segment.cells
    if fast is None:
        return exact.nearest(queries, segment.vectors, k, chosen.rows)
    if bits is None:
        similar, rows = fast.search(queries, k)
    else:
        # removed rows are few, and those that a filter leaves out may be many
        narrow = chosen.filtered
        visited = _cells_with_rows(chosen, fast, queries) if narrow else fast.nearest_cells(queries)
        similar, rows = fast.search_cells(queries, k, *visited, bits)
    short = np.flatnonzero(rows[:, -1] < 0)
    if len(short):  # the visited cells have fewer than k of the chosen rows
        some = np.ascontiguousarray(queries[short])
        similar[short], rows[short] = exact.nearest(some, segment.vectors, k, chosen.rows)
    return similar, rows


def _cells_with_rows(chosen: Selection, fast: Cells, queries: Vectors) -> tuple[Vectors, Ints]:
    """The similarities and numbers of the cells that each query visits; -1 fills up."""
    numbers, held, centroids = chosen.open_cells
    count = len(chosen.segment)
    factor = 1 + (WIDER - 1) * (1 - chosen.count / count)
    wanted = int(factor * fast.nprobe * -(-count // fast.quantiser.note.cells))
    near = queries @ centroids.T
    likely = 4 + 2 * wanted * len(numbers) // chosen.count
    while True:
        likely = min(likely, len(numbers))
        if likely < len(numbers):
            places = np.argpartition(near, -likely, axis=1)[:, -likely:]
            order = np.argsort(-np.take_along_axis(near, places, 1), axis=1)
            places = np.take_along_axis(places, order, 1)
        else:
            places = np.argsort(-near, axis=1)
        sizes = held[places]
        enough = np.cumsum(sizes, axis=1) - sizes < wanted
        if not enough.all(axis=1).any() or likely == len(numbers):
            break
        likely *= 2
    width = int(enough.sum(axis=1).max())
    places, enough = places[:, :width], enough[:, :width]
    return np.take_along_axis(near, places, 1), np.where(enough, numbers[places], -1)
