"""Papers versus reality: what papers report over the years, beside what a fair test finds.

After figure 2 of A Metric Learning Reality Check (Musgrave, Belongie and Lim, ECCV 2020).
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from lookalike.compare.contenders import Contender
from lookalike.published import Published, load, papers
from lookalike.report.catalogue import catalogue
from lookalike.study.results import Which

__all__ = ["Reality", "Reported", "Tested", "papers_and_reality"]

METRIC = "recall@1"
OLD_LOSSES = ("contrastive", "triplet")
"""What every paper compares with, so that its numbers can be followed over the years."""


@dataclass(frozen=True)
class Reported:
    """What one paper reports for an old loss."""

    method: str
    year: int
    score: float
    paper: str


@dataclass(frozen=True)
class Tested:
    """What we find for a method, at the year of its paper."""

    name: str
    year: int
    score: float
    half: float | None


@dataclass(frozen=True)
class Reality:
    """The two sides of the chart, scores between 0 and 1."""

    reported: list[Reported]
    tested: list[Tested]


def papers_and_reality(
    dataset: str, contenders: Sequence[Contender], which: Which
) -> Reality | None:
    """None where papers say nothing about the data set, or we have nothing to set beside it."""
    reported = [
        Reported(_old_loss(row.method), _year(row), row.value / 100, _who(row))
        for row in load(metric=METRIC)
        if row.dataset == dataset and row.value is not None and row.part == "test"
        if _old_loss(row.method) in OLD_LOSSES
    ]
    years = _years()
    tested = []
    for one in contenders:
        score = one.interval(METRIC, which)
        year = years.get(one.config.loss.name) if one.config else None
        if score is not None and year is not None and not one.baseline:
            tested.append(Tested(one.name, year, score.mean, score.half))
    return Reality(reported, tested) if reported and tested else None


def _old_loss(method: str) -> str:
    return method.removesuffix("-baseline")


def _year(row: Published) -> int:
    return row.year or papers()[row.paper].year


def _who(row: Published) -> str:
    if row.reported_by:
        return row.reported_by
    shown = [part for part in (row.network, f"{row.size}-d" if row.size else "") if part]
    beside = f" ({', '.join(shown)})" if shown else ""
    return papers()[row.paper].title + beside


def _years() -> dict[str, int]:
    """When each loss was published, where its page says so."""
    found = {row.name: re.findall(r"\b(?:19|20)\d\d\b", row.paper) for row in catalogue("losses")}
    return {name: int(years[0]) for name, years in found.items() if years}
