"""Papers, their results and hyper-parameters as data: one CSV file per table, a row per number.

``load(paper="metrix", dataset="cub")`` returns results, ``hyperparameters()`` the tuned values that
papers print, ``papers()`` the papers themselves, and ``literature()`` what a document tells about
other papers. Losses show the hyper-parameters, recipes are built from them, and reports list them.
The files are in ``lookalike/papers/data``; this module reads them for all rooms.

The page of A Metric Learning Reality Check lists which optimizers papers use, which claim the
simple crop, and where comparisons are unfair; every paper is a row of ``literature.csv``.
:func:`claimed_gains` joins what papers report for their own method with what they report for the
contrastive and triplet losses, as far as the documents print both.
"""

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Annotated, TypeAlias, TypeVar

from pydantic import BeforeValidator, TypeAdapter

from lookalike.errors import BadInput, did_you_mean

__all__ = [
    "TABLES",
    "CitedPaper",
    "ClaimedGain",
    "Hyperparameter",
    "Paper",
    "Published",
    "UnfairComparison",
    "claimed_gains",
    "hyperparameters",
    "literature",
    "load",
    "papers",
    "unfair_comparisons",
]

TABLES = ("thesis", "metrix", "dr", "reported")
"""The files of results: one per paper, and what papers report for two old losses."""

Row = TypeVar("Row")
_none_if_empty = BeforeValidator(lambda text: text or None)
OptionalInt: TypeAlias = Annotated[int | None, _none_if_empty]
OptionalFloat: TypeAlias = Annotated[float | None, _none_if_empty]


@dataclass(frozen=True)
class Paper:
    """One paper, and the document its numbers were read from."""

    paper: str
    """The key of the paper, the first part of the names of its recipes."""
    title: str
    authors: str
    venue: str
    year: int
    document: str


@dataclass(frozen=True)
class Published:
    """One number that a document prints. What the document does not say is None or empty."""

    paper: str
    """The key of the document: thesis, reality-check, metrix, dr."""
    dataset: str
    network: str
    size: OptionalInt
    method: str
    """The loss's name in ``create``, with the mode of mixing (``-feature``) or ``dr-``."""
    label: str
    """What the document calls the method."""
    metric: str
    """``recall@k``; or ``rank-total``, ``rank-mean``, ``rank-std`` of a tournament."""
    value: OptionalFloat
    """In per cent (ranks: unscaled); None where the document gives none or it is unreadable."""
    spread: OptionalFloat
    """Standard deviation, where given."""
    part: str
    """``test`` or ``validation`` classes."""
    protocol: str
    recipe: str
    """The recipe that reproduces this number; empty for numbers that a document quotes."""
    reported_by: str
    """The source of a quoted number: a paper's title or a loss; empty for the document's own."""
    year: OptionalInt
    """Year of the paper that reports it."""
    source: str
    """Which table of the document."""
    conditions: str


@dataclass(frozen=True)
class Hyperparameter:
    """One printed value. What the paper does not say is None or empty."""

    paper: str
    dataset: str
    """Name of the data set; empty: used for every one."""
    network: str
    size: OptionalInt
    batch: OptionalInt
    loss: str
    """The loss's name in ``create``; empty: used with every loss."""
    method: str
    """The name of the method in recipes; two methods may share a loss."""
    label: str
    """What the paper calls the method."""
    parameter: str
    """What the paper calls the parameter."""
    value: str
    """As printed; empty where the paper prints none."""
    low: OptionalFloat
    high: OptionalFloat
    step: OptionalFloat
    """Range and step of a search, where there was one."""
    settings: Annotated[tuple[str, ...], BeforeValidator(str.split)]
    """The value as ``key=value`` of a run; empty where there is nothing to set."""
    source: str
    conditions: str

    @property
    def reimplemented(self) -> bool:
        """Whether the value comes from a public reimplementation instead of the paper."""
        return "public reimplementation" in self.source


@cache
def papers() -> dict[str, Paper]:
    """All papers by key.

    Returns:
        A mapping from the key of a paper to its title, authors, venue, year and document.

    >>> papers()["metrix"].year
    2022
    """
    return {row.paper: row for row in _read_rows("papers", Paper)}


def load(
    paper: str | None = None, dataset: str | None = None, metric: str | None = None
) -> tuple[Published, ...]:
    """Published results, optionally of one paper, data set or metric.

    Args:
        paper: Key of a paper; None: of all.
        dataset: Name of a data set; None: of all.
        metric: Name of a metric; None: of all.

    Returns:
        The matching rows, in the order of the tables.

    Raises:
        BadInput: If the paper is unknown or nothing is published on the data set.

    >>> rows = load("metrix", "cub", "recall@1")
    >>> [row.value for row in rows if row.method == "proxy-anchor-feature"]
    [71.0]
    """
    if paper is not None and paper not in papers():
        raise BadInput(f"there is no published paper '{paper}'; {did_you_mean(paper, papers())}")
    known = {row.dataset for row in _results()}
    if dataset is not None and dataset not in known:
        raise BadInput(
            f"nothing is published on '{dataset}'; {did_you_mean(dataset, sorted(known))}"
        )
    return tuple(
        row
        for row in _results()
        if paper in (None, row.paper)
        and dataset in (None, row.dataset)
        and metric in (None, row.metric)
    )


@cache
def hyperparameters() -> tuple[Hyperparameter, ...]:
    """All hyper-parameters that the papers print.

    Returns:
        The rows, in the order of the papers' tables.

    >>> first = hyperparameters()[0]
    >>> first.label, first.parameter, first.value, first.settings
    ('Contrastive', 'pos_margin', '-0.2000', ('loss.pos_margin=-0.2000',))
    """
    return _read_rows("hyperparameters", Hyperparameter)


@cache
def _results() -> tuple[Published, ...]:
    return tuple(row for table in TABLES for row in _read_rows(table, Published))


def _read_rows(table: str, kind: type[Row]) -> tuple[Row, ...]:
    """The rows of a CSV file of this package; an empty cell of a number is None."""
    text = files("lookalike").joinpath(f"papers/data/{table}.csv").read_text(encoding="utf-8")
    return TypeAdapter(tuple[kind, ...]).validate_python(  # type: ignore[valid-type]
        tuple(csv.DictReader(text.splitlines()))
    )


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
    return _read_rows("literature", CitedPaper)


@cache
def unfair_comparisons() -> tuple[UnfairComparison, ...]:
    """The examples of unfair comparisons, in the order of the page.

    Returns:
        The examples.

    >>> len(unfair_comparisons())
    19
    """
    return _read_rows("unfair", UnfairComparison)


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
