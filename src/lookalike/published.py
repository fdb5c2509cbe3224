"""Papers, their results and hyper-parameters as data: one CSV file per table, a row per number.

``load(paper="metrix", dataset="cub")`` returns results, ``hyperparameters()`` the tuned values that
papers print, ``papers()`` the papers themselves, and ``read_table()`` any table as it is written,
such as what a document tells about other papers. Losses show the hyper-parameters, recipes are
built from them, and reports list them. The files are in ``lookalike/papers/data``; this module
reads them for all rooms.
"""

import csv
import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Annotated, TypeAlias, TypeVar

from pydantic import BeforeValidator, TypeAdapter

from lookalike.errors import BadInput, did_you_mean

__all__ = [
    "TABLES",
    "Hyperparameter",
    "Paper",
    "Published",
    "hyperparameters",
    "load",
    "papers",
    "read_table",
    "year_in",
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


def year_in(citation: str) -> int | None:
    """The first year that a citation names.

    >>> year_in("Hadsell et al., CVPR 2006")
    2006
    """
    found = re.search(r"\b(?:19|20)\d\d\b", citation)
    return int(found[0]) if found else None


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


def read_table(name: str) -> list[dict[str, str]]:
    """The rows of a CSV file of ``lookalike/papers/data`` as they are written.

    Args:
        name: ``literature``, the papers that the page of A Metric Learning Reality Check cites;
            ``unfair``, its examples of unfair comparisons; ``gains``, what papers claim to gain
            over older methods, as far as the documents print both numbers; or another file.

    Returns:
        The cells of each row by column; empty is what a document does not say.

    >>> read_table("unfair")[0]["category"]
    'architecture'
    """
    text = files("lookalike").joinpath(f"papers/data/{name}.csv").read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))


def _read_rows(table: str, kind: type[Row]) -> tuple[Row, ...]:
    """The rows of a CSV file; an empty cell of a number is None."""
    rows = tuple(read_table(table))
    return TypeAdapter(tuple[kind, ...]).validate_python(rows)  # type: ignore[valid-type]


OLD_LOSSES = ("contrastive", "triplet")
"""What every paper compares with."""
