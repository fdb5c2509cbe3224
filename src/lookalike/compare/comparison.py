"""Comparing methods: intervals, the audit, a ranking where it is fair, and significant claims."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from lookalike.compare.audit import Audit, audit, listed
from lookalike.compare.contenders import Contender, Gathered
from lookalike.compare.statistics import (
    Difference,
    Friedman,
    Standing,
    cliques,
    critical_difference,
    friedman,
    pairwise,
    tournament,
)
from lookalike.errors import BadInput, did_you_mean
from lookalike.evaluation.metrics import more_is_better
from lookalike.study.results import Which

ENOUGH_DATASETS = 6
"""With fewer, the signed-rank test cannot reach 5 %: its least p is 2 / 2^n."""

Ranking = Literal["fair", "refused", "anyway"]


@dataclass(frozen=True)
class Tournament:
    """Average ranks over blocks, and which of them differ (Demšar, JMLR 2006)."""

    standings: tuple[Standing, ...]
    friedman: Friedman | None
    distance: float | None
    """Nemenyi's critical difference; None where the blocks are not independent."""
    groups: tuple[tuple[str, ...], ...]
    """Names whose ranks are closer than the critical ``distance``, best first."""
    blocks: int
    about: str
    """A description of the blocks."""
    cells: tuple[str, ...] = ()
    """The names of the blocks, where they are cells: data sets at values of axes."""


@dataclass(frozen=True)
class OnDataset:
    """The comparison on one data set, at one value of every axis where there are any.

    ``contenders`` are in order of score where ranked.
    """

    dataset: str
    label: str
    """The data set and the values of axes."""
    axes: Mapping[str, str]
    contenders: tuple[Contender, ...]
    audit: Audit
    ranking: Ranking
    differences: tuple[Difference, ...]
    blocks: int

    @property
    def trained(self) -> tuple[Contender, ...]:
        """The methods that were trained."""
        return tuple(one for one in self.contenders if not one.baseline)

    @property
    def baselines(self) -> tuple[Contender, ...]:
        """The methods that were not trained."""
        return tuple(one for one in self.contenders if one.baseline)

    @property
    def claims(self) -> tuple[str, ...]:
        """Significant differences: one sentence for each method that is better than another."""
        found = []
        for one in self.contenders:
            beaten = [d for d in self.differences if d.better == one.name and d.holds]
            if beaten:
                worse = ", ".join(f"{d.worse} ({_points(d)})" for d in beaten)
                found.append(f"{one.name} is better than {worse}.")
        return tuple(found)

    @property
    def open(self) -> int:
        """The number of pairs without a significant difference."""
        return sum(not difference.holds for difference in self.differences)

    @property
    def no_better_than_baseline(self) -> dict[str, list[str]]:
        """For each baseline: the methods that are not significantly better."""
        beaten = {(d.better, d.worse) for d in self.differences if d.holds}
        return {
            base.name: [one.name for one in self.trained if (one.name, base.name) not in beaten]
            for base in self.baselines
        }


@dataclass(frozen=True)
class Comparison:
    """The comparison of methods by one metric."""

    metric: str
    which: Which
    datasets: tuple[OnDataset, ...]
    tournament: Tournament | None
    """None where ranks are meaningless: unfair rows, or fewer than two blocks or methods."""


def compare(
    gathered: Gathered, metric: str, which: Which = "separate", *, anyway: bool = False
) -> Comparison:
    """Compare methods on each data set by a metric that all rows have, and over all data sets.

    Rows with axes are compared within a cell, that is at equal values of all axes.
    ``which`` scores the folds' separate models or their concatenated embeddings; ``anyway`` ranks
    even where the rows differ beyond the method.
    """
    known = ranking_metrics(gathered)
    if metric not in known:
        raise BadInput(f"'{metric}' was not measured in every row; {did_you_mean(metric, known)}")
    parts = tuple(_on(cell, gathered, metric, which, anyway) for cell in gathered.cells)
    return Comparison(metric, which, parts, _tournament(parts, metric, which))


def check_concatenated(gathered: Gathered) -> None:
    """Raise an error if some rows have no score of concatenated embeddings."""
    rows = gathered.contenders
    without = [one.name for one in rows if not (one.concatenated or one.has_one_embedding)]
    if without:
        raise BadInput(
            "--concatenated needs studies with folds, which score the folds' embeddings side by "
            f"side; there is no such score of {listed(without)}"
        )


def ranking_metrics(gathered: Gathered) -> tuple[str, ...]:
    """The metrics that all rows have and for which higher is better."""
    first, *others = [one.metrics for one in gathered.contenders]
    return tuple(m for m in first if more_is_better(m) and all(m in o for o in others))


def chosen_metric(gathered: Gathered) -> str:
    """The default metric: the one that selected the study's trials, else MAP@R."""
    known = ranking_metrics(gathered)
    preferred = [*(study.metric for study in gathered.studies), "map@r", "recall@1", *known]
    found = next((metric for metric in preferred if metric in known), None)
    if found is None:
        raise BadInput("the rows have no metric in common that ranks; see protocol.metrics")
    return found


def _on(cell: str, gathered: Gathered, metric: str, which: Which, anyway: bool) -> OnDataset:
    rows = gathered.of(cell)
    dataset, axes = rows[0].dataset, rows[0].axes
    found = audit([one.experiment for one in rows])
    ranking: Ranking = "fair" if found.fair else "anyway" if anyway else "refused"
    if ranking != "refused":
        rows = tuple(sorted(rows, key=lambda one: (one.baseline, -_mean(one, metric, which))))
    differences: tuple[Difference, ...] = ()
    scores = _table(rows, metric, which)
    if ranking != "refused" and len(rows) > 1 and len(scores) > 1:
        baselines = [one.name for one in rows if one.baseline]
        names = [one.name for one in rows]
        differences = tuple(pairwise(scores, names, not_among=baselines))
    return OnDataset(dataset, cell, axes, rows, found, ranking, differences, len(scores))


def _mean(one: Contender, metric: str, which: Which) -> float:
    found = one.interval(metric, which)
    return -1.0 if found is None else found.mean


def _table(rows: Sequence[Contender], metric: str, which: Which) -> NDArray[np.float64]:
    """Scores by block and method, over the repeats and folds that every trained row has.

    A baseline has one value per fold, or only one; it is compared with every repeat.
    """
    blocks = {one.name: one.blocks(metric, which) for one in rows}
    trained = [set(blocks[one.name]) for one in rows if not one.baseline]
    common = sorted(set.intersection(*trained)) if trained else []
    for one in rows:
        if one.baseline:
            of_fold = {fold: value for (_, fold), value in blocks[one.name].items()}
            if len(of_fold) == 1:
                of_fold = dict.fromkeys((fold for _, fold in common), *of_fold.values())
            common = [cell for cell in common if cell[1] in of_fold]
            blocks[one.name] = {cell: of_fold[cell[1]] for cell in common}
    values = [[blocks[one.name][cell] for one in rows] for cell in common]
    return np.array(values, float).reshape(len(common), len(rows))


def _tournament(parts: Sequence[OnDataset], metric: str, which: Which) -> Tournament | None:
    """Ranks over data sets where there are enough; otherwise over cells, or repeats and folds."""
    ranked = [part for part in parts if part.ranking != "refused"]
    if not ranked or len(ranked) < len(parts):
        return None
    by_name = [{one.name: one for one in part.trained} for part in ranked]
    names = [name for name in by_name[0] if all(name in rows for rows in by_name)]
    if len(names) < 2:
        return None
    means = np.array([[_mean(rows[name], metric, which) for name in names] for rows in by_name])
    datasets = list(dict.fromkeys(part.dataset for part in ranked))
    of = " and ".join(datasets)
    cells: tuple[str, ...] = ()
    if len(datasets) >= ENOUGH_DATASETS:
        at = [[i for i, part in enumerate(ranked) if part.dataset == name] for name in datasets]
        scores = np.array([means[rows].mean(axis=0) for rows in at])
        about = f"{len(datasets)} data sets"
    elif any(part.axes for part in ranked):
        scores, cells = means, tuple(part.label for part in ranked)
        varied = " x ".join(dict.fromkeys(axis for part in ranked for axis in part.axes))
        about = (
            f"{len(scores)} cells ({varied}) on {of}; they share test images, so they are not "
            "independent, and the ranks are not tested"
        )
    else:
        tables = [_table([rows[name] for name in names], metric, which) for rows in by_name]
        scores = np.concatenate(tables)
        what = "repeats and folds" if which == "separate" else "repeats"
        about = f"{len(scores)} {what} on {of}; the ranks are valid for {of} only"
    if len(scores) < 2:
        return None
    standings = tournament(scores, names)
    distance = None if cells else critical_difference(len(names), len(scores))
    groups = [] if distance is None else cliques([one.rank for one in standings], distance)
    return Tournament(
        standings=tuple(standings),
        friedman=None if cells else friedman(scores),
        distance=distance,
        groups=tuple(tuple(standings[at].name for at in group) for group in groups),
        blocks=len(scores),
        about=about,
        cells=cells,
    )


def _points(one: Difference) -> str:
    low, high = 100 * (one.low or 0.0), 100 * (one.high or 0.0)
    return f"by {100 * one.mean:.1f} points, {low:.1f} to {high:.1f}"
