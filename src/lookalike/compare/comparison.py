"""Methods compared: intervals, the audit, a ranking where it is fair, and what may be claimed."""

from collections.abc import Sequence
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

__all__ = [
    "Comparison",
    "OnDataset",
    "Ranking",
    "Tournament",
    "check_concatenated",
    "chosen_metric",
    "compare",
    "ranking_metrics",
]

ENOUGH_DATASETS = 6
"""With fewer, the signed-rank test cannot reach five in a hundred: its least p is 2 / 2^n."""

Ranking = Literal["fair", "refused", "anyway"]


@dataclass(frozen=True)
class Tournament:
    """Average ranks over blocks, and which of them differ (Demšar, JMLR 2006)."""

    standings: tuple[Standing, ...]
    friedman: Friedman | None
    distance: float
    groups: tuple[tuple[str, ...], ...]
    """Names that the critical ``distance`` cannot tell apart, best first."""
    blocks: int
    about: str
    """What a block is, in words."""


@dataclass(frozen=True)
class OnDataset:
    """The comparison on one data set. ``contenders`` are in order of score where ranked."""

    dataset: str
    contenders: tuple[Contender, ...]
    audit: Audit
    ranking: Ranking
    differences: tuple[Difference, ...]
    blocks: int

    @property
    def trained(self) -> tuple[Contender, ...]:
        """Those that learned."""
        return tuple(one for one in self.contenders if not one.baseline)

    @property
    def baselines(self) -> tuple[Contender, ...]:
        """Those that did not."""
        return tuple(one for one in self.contenders if one.baseline)

    @property
    def claims(self) -> tuple[str, ...]:
        """Who is better than whom, one sentence for each method of which it can be said."""
        found = []
        for one in self.contenders:
            beaten = [d for d in self.differences if d.better == one.name and d.holds]
            if beaten:
                listed = ", ".join(f"{d.worse} ({_points(d)})" for d in beaten)
                found.append(f"{one.name} is better than {listed}.")
        return tuple(found)

    @property
    def open(self) -> int:
        """How many pairs nothing can be said about."""
        return sum(not difference.holds for difference in self.differences)

    @property
    def no_better_than_baseline(self) -> dict[str, list[str]]:
        """For each baseline: the methods that cannot be said to beat it."""
        return {
            base.name: [
                one.name
                for one in self.trained
                if not any(
                    d.holds and (d.better, d.worse) == (one.name, base.name)
                    for d in self.differences
                )
            ]
            for base in self.baselines
        }


@dataclass(frozen=True)
class Comparison:
    """Everything that can be said about some methods by one metric."""

    metric: str
    which: Which
    datasets: tuple[OnDataset, ...]
    tournament: Tournament | None
    """None where ranks would mean nothing: unfair rows, or fewer than two blocks or methods."""


def compare(
    gathered: Gathered, metric: str, which: Which = "separate", *, anyway: bool = False
) -> Comparison:
    """Compare by ``metric``; rows that differ beyond the method are ranked only if ``anyway``."""
    known = ranking_metrics(gathered)
    if metric not in known:
        raise BadInput(f"'{metric}' was not measured in every row; {did_you_mean(metric, known)}")
    parts = tuple(_on(dataset, gathered, metric, which, anyway) for dataset in gathered.datasets)
    return Comparison(metric, which, parts, _tournament(parts, metric, which))


def check_concatenated(gathered: Gathered) -> None:
    """Refuse rows of which the embeddings of several folds were never scored side by side."""
    rows = gathered.contenders
    without = [one.name for one in rows if not (one.concatenated or one.has_one_embedding)]
    if without:
        raise BadInput(
            "--concatenated needs studies with folds, which score the folds' embeddings side by "
            f"side; there is no such score of {listed(without)}"
        )


def ranking_metrics(gathered: Gathered) -> tuple[str, ...]:
    """The metrics that all rows have and of which more is better."""
    first, *others = [one.metrics for one in gathered.contenders]
    return tuple(m for m in first if more_is_better(m) and all(m in o for o in others))


def chosen_metric(gathered: Gathered) -> str:
    """What ranks where nobody says: the metric that chose the study's winners, else MAP@R."""
    known = ranking_metrics(gathered)
    wishes = [*(study.metric for study in gathered.studies), "map@r", "recall@1", *known]
    found = next((metric for metric in wishes if metric in known), None)
    if found is None:
        raise BadInput("the rows have no metric in common that ranks; see protocol.metrics")
    return found


def _on(dataset: str, gathered: Gathered, metric: str, which: Which, anyway: bool) -> OnDataset:
    rows = gathered.of(dataset)
    found = audit([one.experiment for one in rows])
    ranking: Ranking = "fair" if found.fair else "anyway" if anyway else "refused"
    if ranking != "refused":
        rows = tuple(sorted(rows, key=lambda one: (one.baseline, -_mean(one, metric, which))))
    differences: tuple[Difference, ...] = ()
    names, scores = _table(rows, metric, which)
    if ranking != "refused" and len(names) > 1 and len(scores) > 1:
        apart = [one.name for one in rows if one.baseline]
        differences = tuple(pairwise(scores, names, not_among=apart))
    return OnDataset(dataset, rows, found, ranking, differences, len(scores))


def _mean(one: Contender, metric: str, which: Which) -> float:
    found = one.interval(metric, which)
    return -1.0 if found is None else found.mean


def _table(
    rows: Sequence[Contender], metric: str, which: Which
) -> tuple[list[str], NDArray[np.float64]]:
    """Scores by block and method, over the repeats and folds that every trained row has.

    A baseline has one value a fold, or one at all; it stands against every repeat.
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
    return [one.name for one in rows], np.array(values, float).reshape(len(common), len(rows))


def _tournament(parts: Sequence[OnDataset], metric: str, which: Which) -> Tournament | None:
    """Ranks over data sets where there are enough; else over repeats and folds, and it says so."""
    ranked = [part for part in parts if part.ranking != "refused"]
    if not ranked or len(ranked) < len(parts):
        return None
    names = [
        one.name
        for one in ranked[0].trained
        if all(one.name in [other.name for other in part.trained] for part in ranked)
    ]
    if len(names) < 2:
        return None
    tables = [_columns(part, names, metric, which) for part in ranked]
    if len(ranked) >= ENOUGH_DATASETS:
        scores = np.array([table.mean(axis=0) for table in tables])
        about = f"{len(ranked)} data sets"
    else:
        scores = np.concatenate(tables)
        of = " and ".join(part.dataset for part in ranked)
        what = "repeats and folds" if which == "separate" else "repeats"
        about = f"{len(scores)} {what} on {of}; the ranks speak of {of} only"
    if len(scores) < 2:
        return None
    standings = tournament(scores, names)
    distance = critical_difference(len(names), len(scores))
    groups = cliques([one.rank for one in standings], distance)
    return Tournament(
        standings=tuple(standings),
        friedman=friedman(scores),
        distance=distance,
        groups=tuple(tuple(standings[at].name for at in group) for group in groups),
        blocks=len(scores),
        about=about,
    )


def _columns(
    part: OnDataset, names: Sequence[str], metric: str, which: Which
) -> NDArray[np.float64]:
    by_name = {one.name: one for one in part.trained}
    _, scores = _table([by_name[name] for name in names], metric, which)
    return scores


def _points(one: Difference) -> str:
    low = 0.0 if one.low is None else one.low
    high = 0.0 if one.high is None else one.high
    return f"by {100 * one.mean:.1f} points, {100 * low:.1f} to {100 * high:.1f}"
