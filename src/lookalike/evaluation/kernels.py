"""The compiled inner loops of counting. Importing this module imports numba.

Each function takes a range of rows (or columns) of one tile of similarities and releases the
interpreter lock, so that ordinary threads share the work.

A tile comes from a single-precision matrix product, which may round the same dot product
differently in two places. So a tile decides only what lies outside a band round the similarity
of a relevant item, as wide as the rounding error can be. Values inside are computed again by
``exact_score``, in double precision and in one fixed order of summation: equal items tie exactly,
and the counts do not depend on the matrix library, the tiles or the number of threads.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lookalike.ops.compiled import compiled

Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]
Ints = NDArray[np.int64]


PIECE = 1024
"""Values compared together: enough for SIMD, few enough that most pieces reach no level."""

BIT = 32
"""Values compared together to find one inside a band."""

SCAN = 4
"""Finding the values to search costs as much as comparing a piece with so many levels."""

BLOCK = 512
"""Rows and columns of the part of a tile that is scanned by columns while it is in cache."""


class Levels(NamedTuple):
    """The relevant items of all queries: lists end to end, each ascending by score."""

    euclidean: bool
    offsets: Ints
    """Query q has the items from ``offsets[q]`` to ``offsets[q + 1]``."""
    exact: Doubles
    """The score of each item, in double precision."""
    low: Floats
    high: Floats
    """The band round it within which a value in single precision decides nothing."""
    above: Ints
    equal: Ints
    """The counts; ``above`` holds differences between levels until ``finish``."""


@compiled
def _term(x: np.float32, y: np.float32, euclidean: bool) -> float:
    """The contribution of one dimension to a.b, or to -|a - b|^2."""
    if euclidean:
        return -((np.float64(x) - np.float64(y)) ** 2)
    return np.float64(x) * np.float64(y)


@compiled
def _summed(a: Floats, b: Floats, euclidean: bool) -> float:
    """The sum of the terms of all dimensions."""
    s0 = s1 = s2 = s3 = s4 = s5 = s6 = s7 = 0.0
    whole = len(a) // 8 * 8
    for k in range(0, whole, 8):
        s0 += _term(a[k], b[k], euclidean)
        s1 += _term(a[k + 1], b[k + 1], euclidean)
        s2 += _term(a[k + 2], b[k + 2], euclidean)
        s3 += _term(a[k + 3], b[k + 3], euclidean)
        s4 += _term(a[k + 4], b[k + 4], euclidean)
        s5 += _term(a[k + 5], b[k + 5], euclidean)
        s6 += _term(a[k + 6], b[k + 6], euclidean)
        s7 += _term(a[k + 7], b[k + 7], euclidean)
    for k in range(whole, len(a)):
        s0 += _term(a[k], b[k], euclidean)
    return ((s0 + s1) + (s2 + s3)) + ((s4 + s5) + (s6 + s7))


@compiled
def exact_score(a: Floats, b: Floats, euclidean: bool) -> float:
    """a.b, or -|a - b|^2 / 2, in double precision; eight partial sums in a fixed order."""
    if euclidean:  # decided here, so that the compiler vectorises each of the two loops
        return 0.5 * _summed(a, b, True)
    return _summed(a, b, False)


@compiled
def exact_scores(
    first: int,
    last: int,
    queries: Floats,
    gallery: Floats,
    euclidean: bool,
    offsets: Ints,
    items: Ints,
    symmetric: bool,
    scores: Doubles,
) -> None:
    """The scores of the items of the lists ``first`` to ``last``.

    ``symmetric``: b is in the list of a where a is in that of b, so that each pair is scored once.
    """
    for query in range(first, last):
        for at in range(offsets[query], offsets[query + 1]):
            item = items[at]
            if symmetric and item < query:
                continue
            scores[at] = exact_score(queries[query], gallery[item], euclidean)
            if symmetric:
                start = offsets[item]
                place = np.searchsorted(items[start : offsets[item + 1]], query)
                scores[start + place] = scores[at]


@compiled
def sort_lists(first: int, last: int, offsets: Ints, scores: Doubles) -> None:
    """Sort the scores of each of the lists ``first`` to ``last``, ascending."""
    for query in range(first, last):
        scores[offsets[query] : offsets[query + 1]].sort()


@compiled
def _reached_and_passed(
    values: Floats, start: int, stop: int, low: float, high: float
) -> tuple[np.int64, np.int64]:
    """How many of ``values[start:stop]`` are >= ``low``, and how many > ``high``; vectorised."""
    reached = passed = np.uint32(0)
    for place in range(start, stop):
        value = values[place]
        reached = np.uint32(reached + (np.uint32(1) if value >= low else np.uint32(0)))
        passed = np.uint32(passed + (np.uint32(1) if value > high else np.uint32(0)))
    return np.int64(reached), np.int64(passed)


@compiled
def _count(values: Floats, a: int, b: int, query: Floats, others: Floats, levels: Levels) -> None:
    """Count ``values`` at the levels ``a`` to ``b`` (ascending) of one query.

    ``above`` holds differences: a value adds one at the highest level that it passes. Most
    pieces of a row reach no level at all where the embeddings are any good.
    """
    if a == b:
        return
    for start in range(0, len(values), PIECE):
        piece, those = values[start : start + PIECE], others[start : start + PIECE]
        reached = _reached_and_passed(piece, 0, len(piece), levels.low[a], levels.high[a])[0]
        if reached == 0:
            continue
        if b - a <= SCAN + reached:  # to compare with a level costs about one search
            _compare(piece, a, b, query, those, levels)
        else:
            _search(piece, a, b, query, those, levels)


@compiled
def _compare(values: Floats, a: int, b: int, query: Floats, others: Floats, levels: Levels) -> None:
    """Every value with every level, up to the first that none reaches: for few levels."""
    for at in range(a, b):
        lowest, highest = levels.low[at], levels.high[at]
        reached, passed = _reached_and_passed(values, 0, len(values), lowest, highest)
        if reached == 0:
            return
        doubtful = reached - passed
        for start in range(0, len(values), BIT):
            if doubtful == 0:
                break
            stop = min(start + BIT, len(values))
            some, clear = _reached_and_passed(values, start, stop, lowest, highest)
            if some == clear:
                continue
            doubtful -= some - clear
            for place in range(start, stop):
                if lowest <= values[place] <= highest:
                    score = exact_score(query, others[place], levels.euclidean)
                    if score > levels.exact[at]:
                        passed += 1
                    elif score == levels.exact[at]:
                        levels.equal[at] += 1
        # Differences: so many more at this level alone.
        levels.above[at] += passed
        if at > a:
            levels.above[at - 1] -= passed


@compiled
def _search(values: Floats, a: int, b: int, query: Floats, others: Floats, levels: Levels) -> None:
    """The place of each value among the levels, by bisection: for few values or many levels."""
    exact, low, high = levels.exact, levels.low, levels.high
    lowest = low[a]
    for place in range(values.shape[0]):
        value = values[place]
        if value < lowest:
            continue
        passed, length = a, b - a
        while length > 1:
            half = length >> 1
            passed = passed + half if high[passed + half - 1] < value else passed
            length -= half
        if high[passed] < value:
            passed += 1
        if passed < b and low[passed] <= value:
            score = exact_score(query, others[place], levels.euclidean)
            while passed < b and exact[passed] < score:
                passed += 1
            tied = passed
            while tied < b and exact[tied] == score:
                levels.equal[tied] += 1
                tied += 1
        if passed > a:
            levels.above[passed - 1] += 1


@compiled
def count_rows(
    first: int,
    last: int,
    tile: Floats,
    columns: int,
    query: int,
    item: int,
    queries: Floats,
    gallery: Floats,
    levels: Levels,
    skip_offsets: Ints,
    skip_items: Ints,
) -> None:
    """Rows ``first`` to ``last`` of the tile of the queries from ``query``, items from ``item``.

    First the pairs that are not wrong answers (relevant, ignored, itself) are put at minus
    infinity: a relevant item is thus never compared with its own similarity. The tile may be
    wider than its ``columns``.
    """
    others = gallery[item : item + columns]
    for row in range(first, last):
        q = query + row
        values = tile[row, :columns]
        at, end = skip_offsets[q], skip_offsets[q + 1]
        at += np.searchsorted(skip_items[at:end], item)
        while at < end and skip_items[at] < item + columns:
            values[skip_items[at] - item] = -np.inf
            at += 1
        a, b = levels.offsets[q], levels.offsets[q + 1]
        _count(values, a, b, queries[q], others, levels)


@compiled
def _greatest(tile: Floats, top: int, bottom: int, left: int, right: int, greatest: Floats) -> None:
    """The greatest value in each of some columns, over some rows; vectorised."""
    greatest[:] = -np.inf
    for row in range(top, bottom):
        values = tile[row, left:right]
        for column in range(values.shape[0]):
            value = values[column]
            greatest[column] = value if value > greatest[column] else greatest[column]


@compiled
def count_columns(
    first: int,
    last: int,
    tile: Floats,
    rows: int,
    query: int,
    item: int,
    queries: Floats,
    levels: Levels,
) -> None:
    """Columns of a tile after ``count_rows`` where queries = gallery: each item is a query too.

    Columns are not contiguous in memory, so only those that reach a level are copied out.
    """
    greatest = np.empty(BLOCK, np.float32)
    copied = np.empty(BLOCK, np.float32)
    for left in range(first, last, BLOCK):
        right = min(left + BLOCK, last)
        for top in range(0, rows, BLOCK):
            bottom = min(top + BLOCK, rows)
            others = queries[query + top : query + bottom]
            _greatest(tile, top, bottom, left, right, greatest)
            for column in range(left, right):
                q = item + column
                a, b = levels.offsets[q], levels.offsets[q + 1]
                if a == b or greatest[column - left] < levels.low[a]:
                    continue
                for row in range(top, bottom):
                    copied[row - top] = tile[row, column]
                _count(copied[: bottom - top], a, b, queries[q], others, levels)


@compiled
def finish(first: int, last: int, levels: Levels) -> None:
    """Sum the differences, and reverse every list: most similar first."""
    above, equal = levels.above, levels.equal
    for query in range(first, last):
        a, b = levels.offsets[query], levels.offsets[query + 1]
        for at in range(b - 2, a - 1, -1):
            above[at] += above[at + 1]
        above[a:b] = above[a:b][::-1].copy()
        equal[a:b] = equal[a:b][::-1].copy()
