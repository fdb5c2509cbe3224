"""What the documents tell about other papers, as data.

The page of A Metric Learning Reality Check lists which optimizers papers use, which claim the
simple crop, and where comparisons are unfair; every paper is a row of ``literature.csv``.
:func:`claimed_gains` joins what papers report for their own method with what they report for the
contrastive and triplet losses, as far as the documents print both.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Annotated

from pydantic import BeforeValidator

from lookalike.published import Published, load, papers, read_rows

__all__ = [
    "CitedPaper",
    "ClaimedGain",
    "UnfairComparison",
    "claimed_gains",
    "literature",
    "unfair_comparisons",
]

OLD_LOSSES = ("contrastive", "triplet")
"""What every paper compares with."""

YesOrEmpty = Annotated[bool, BeforeValidator(lambda text: text == "yes")]


@dataclass(frozen=True)
class CitedPaper:
    """A paper that the page of Reality Check cites. What the page does not say is empty."""

    title: str
    venue: str
    year: int
    method: str
    """The loss it proposes, as in ``create``; empty where there is none here."""
    optimizer: str
    """As the page categorizes it: SGD, RMSprop, Adam or AdamW."""
    simple_crop: YesOrEmpty
    """Whether it claims: resize to 256 x 256, random crop of 227 x 227, flip."""
    url: str


@dataclass(frozen=True)
class UnfairComparison:
    """One example of an unfair comparison on the page of Reality Check."""

    category: str
    """architecture, dimensionality, crop-method, crop-size or omitted-details."""
    heading: str
    """The page's own heading of the category."""
    title: str
    """The paper."""
    detail: str
    """What the page says about it; empty where it only links to a line of code."""
    url: str
    """The line of code or the discussion that shows it."""


@dataclass(frozen=True)
class ClaimedGain:
    """What a paper reports for its own method and for an older one, Recall@1 in per cent.

    Numbers that no document prints are None, and so is the gain then.
    """

    title: str
    year: int
    dataset: str
    method: str
    own: float | None
    over: str
    """The older method: contrastive, triplet, or the paper's own baseline."""
    baseline: float | None
    source: str
    """The documents that print the numbers."""

    @property
    def gain(self) -> float | None:
        """The claimed gain in points."""
        if self.own is None or self.baseline is None:
            return None
        return round(self.own - self.baseline, 2)


@cache
def literature() -> tuple[CitedPaper, ...]:
    """Every paper that the page of Reality Check cites, by year.

    Returns:
        The papers.

    >>> sum(paper.simple_crop for paper in literature())
    18
    """
    return read_rows("literature", CitedPaper)


@cache
def unfair_comparisons() -> tuple[UnfairComparison, ...]:
    """The examples of unfair comparisons, in the order of the page.

    Returns:
        The examples.

    >>> len(unfair_comparisons())
    19
    """
    return read_rows("unfair", UnfairComparison)


@cache
def claimed_gains() -> tuple[ClaimedGain, ...]:
    """Each paper's own claimed gain over an older method, as far as the documents print it.

    Three sources: for papers cited by Reality Check, its tables of reported numbers and the numbers
    that the thesis quotes; Metrix and DR print their own tables.

    Returns:
        One row per paper, data set and older method with at least one printed number.

    >>> [one.gain for one in claimed_gains() if "Lifted" in one.title and one.dataset == "cub"]
    [17.17, 7.47]
    """
    return (*_of_cited_papers(), *_of_own_tables())


def _of_cited_papers() -> Iterator[ClaimedGain]:
    printed = [row for row in load(metric="recall@1") if row.reported_by and row.part == "test"]
    quoted = {(r.method, r.dataset): r for r in printed if r.paper == "thesis"}
    reported = {(r.reported_by, r.dataset, r.method): r for r in printed if r.paper != "thesis"}
    for paper in literature():
        for dataset in ("cub", "cars", "sop"):
            own = quoted.get((paper.method, dataset))
            for over in OLD_LOSSES:
                base = reported.get((paper.title, dataset, over))
                if _value(own) is None and _value(base) is None:
                    continue
                yield ClaimedGain(
                    paper.title,
                    paper.year,
                    dataset,
                    paper.method,
                    _value(own),
                    over,
                    _value(base),
                    _sources(own, base),
                )


def _of_own_tables() -> Iterator[ClaimedGain]:
    for key in ("metrix", "dr"):
        rows = {(r.method, r.dataset): r for r in load(key, metric="recall@1")}
        for (method, dataset), own in rows.items():
            over = (
                method.removeprefix("dr-")
                if key == "dr"
                else f"{method.rpartition('-')[0]}-baseline"
            )
            base = rows.get((over, dataset))
            if base is None or base is own:
                continue
            paper = papers()[key]
            yield ClaimedGain(
                paper.title,
                paper.year,
                dataset,
                method,
                own.value,
                over,
                base.value,
                _sources(own, base),
            )


def _value(row: Published | None) -> float | None:
    return None if row is None else row.value


def _sources(*rows: Published | None) -> str:
    named = [
        f"{papers()[row.paper].title}: {row.source}"
        for row in rows
        if row is not None and row.value is not None
    ]
    return "; ".join(dict.fromkeys(named))
