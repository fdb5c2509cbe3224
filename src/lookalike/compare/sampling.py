"""From contenders to scores by training and test class."""

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import TypeVar

import numpy as np

from lookalike.compare.contenders import MethodResult
from lookalike.compare.uncertainty import Bounds, Floats, Sample, class_intervals
from lookalike.evaluation.class_table import ClassTable
from lookalike.study.classes import Cell
from lookalike.study.results import Which

Value = TypeVar("Value")


def sample_of(rows: Sequence[MethodResult], metric: str, which: Which = "separate") -> Sample:
    """The scores of ``rows`` over the repeats and folds that every trained row has.

    A training is a repeat: the mean of its folds, which share their seed. A baseline has one value
    per fold, or only one; it is compared with every repeat. Scores per class are those of the rows
    that have the same test classes as the first that has any.
    """
    blocks = {one.name: one.blocks(metric, which) for one in rows}
    tables = {one.name: one.class_blocks(metric, which) for one in rows}
    trained = [set(blocks[one.name]) for one in rows if not one.baseline]
    common = sorted(set.intersection(*trained)) if trained else []
    for one in rows:
        if one.baseline:
            folds = {fold for _, fold in blocks[one.name]}
            if len(folds) > 1 and one.studies == 1:
                common = [cell for cell in common if cell[1] in folds]
    for one in rows:
        if one.baseline:
            blocks[one.name] = _at_every_repeat(blocks[one.name], common)
            tables[one.name] = _at_every_repeat(tables[one.name], common)
    cells = [[cell for cell in common if cell[0] == r] for r in sorted({r for r, _ in common})]
    totals = [[fmean(blocks[one.name][cell] for cell in part) for part in cells] for one in rows]
    first = next((next(iter(found.values())) for found in tables.values() if found), None)
    return Sample(
        tuple(one.name for one in rows),
        np.array(totals, float).reshape(len(rows), len(cells)),
        {
            name: np.stack([_mean_of([found[c].column(metric) for c in part]) for part in cells])
            for name, found in tables.items()
            if cells and found and first is not None and _same_classes(found.values(), first)
        },
        first.queries if first is not None and cells else np.empty(0, np.int64),
    )


def class_bounds(
    rows: Sequence[MethodResult], metric: str, which: Which = "separate"
) -> dict[str, Bounds]:
    """By method: the interval of its score over all its trainings x test classes, where known."""
    samples: dict[tuple[int, tuple[str, ...]], list[tuple[str, Floats]]] = {}
    queries = {}
    for one in rows:
        found = one.class_blocks(metric, which)
        if not found or not _same_classes(found.values(), next(iter(found.values()))):
            continue
        repeats = sorted({repeat for repeat, _ in found})
        columns = [[t.column(metric) for (r, _), t in found.items() if r == n] for n in repeats]
        values = np.stack([_mean_of(part) for part in columns])
        table = next(iter(found.values()))
        key = (len(repeats), table.classes)
        samples.setdefault(key, []).append((one.name, values))
        queries[key] = table.queries
    bounds: dict[str, Bounds] = {}
    for key, group in samples.items():
        means = np.array([np.average(v, axis=1, weights=queries[key]) for _, v in group])
        names = tuple(name for name, _ in group)
        bounds |= class_intervals(Sample(names, means, dict(group), queries[key]))
    return bounds


def _at_every_repeat(found: Mapping[Cell, Value], common: Sequence[Cell]) -> dict[Cell, Value]:
    """The value of each fold, or the only one, at every cell.

    A baseline of one study has repeat 0 only. Of several whole studies, "repeats", it has its own
    value in each; the places of a study are its repeats and folds in order.
    """
    repeats = {repeat for repeat, _ in found}
    values = {}
    for repeat, place in common:
        own = repeat if len(repeats) > 1 else 0
        folds = [fold for at, fold in found if at == own]
        if len(folds) == 1 or (len(repeats) > 1 and folds):
            values[repeat, place] = found[own, folds[place % len(folds)]]
        elif place in folds:
            values[repeat, place] = found[own, place]
    return values


def _same_classes(tables: Iterable[ClassTable], first: ClassTable) -> bool:
    return all(
        table.classes == first.classes and np.array_equal(table.queries, first.queries)
        for table in tables
    )


def _mean_of(columns: Sequence[Floats]) -> Floats:
    found: Floats = np.mean(columns, axis=0)
    return found
