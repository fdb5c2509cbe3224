"""What papers report, as data: one CSV a document, one row a number.

``load(paper="metrix", dataset="cub")`` gives the rows; ``papers()`` says what the papers are.
Tuned hyper-parameters are in ``lookalike.published.hyperparameters``.
"""

import csv
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from lookalike.errors import BadInput, did_you_mean
from lookalike.published.hyperparameters import optional_float, optional_int
from lookalike.published.papers import Paper, papers

__all__ = ["TABLES", "Paper", "Published", "load", "papers"]

TABLES = ("thesis", "metrix", "dr", "reported")
"""The files of results: three papers' own, and what papers report for two old losses."""


@dataclass(frozen=True)
class Published:
    """One number that a document prints. What it does not say is None or empty."""

    paper: str
    """The document's key: thesis, reality-check, metrix, dr."""
    dataset: str
    network: str
    size: int | None
    method: str
    """The loss's name in ``create``, with the mode of mixing (``-feature``) or ``dr-``."""
    label: str
    """What the document calls the method."""
    metric: str
    """``recall@k``; or ``rank-total``, ``rank-mean``, ``rank-std`` of a tournament."""
    value: float | None
    """In per cent (ranks: as they are); None where the document gives none or it is unreadable."""
    spread: float | None
    """Standard deviation, where given."""
    part: str
    """``test`` or ``validation`` classes."""
    protocol: str
    recipe: str
    """The recipe that makes this number again; empty for numbers that a document quotes."""
    reported_by: str
    """Whose number a document quotes: a paper's title or a loss; empty for its own."""
    year: int | None
    """Year of the paper that reports it."""
    source: str
    """Which table of the document."""
    conditions: str


def load(
    paper: str | None = None, dataset: str | None = None, metric: str | None = None
) -> tuple[Published, ...]:
    """The numbers of a paper, a data set, a metric; of all where none is named.

    >>> rows = load("metrix", "cub", "recall@1")
    >>> [row.value for row in rows if row.method == "proxy-anchor-feature"]
    [71.0]
    """
    if paper is not None and paper not in papers():
        raise BadInput(f"there is no published paper '{paper}'; {did_you_mean(paper, papers())}")
    known = {row.dataset for row in _everything()}
    if dataset is not None and dataset not in known:
        raise BadInput(
            f"nothing is published on '{dataset}'; {did_you_mean(dataset, sorted(known))}"
        )
    return tuple(
        row
        for row in _everything()
        if paper in (None, row.paper)
        and dataset in (None, row.dataset)
        and metric in (None, row.metric)
    )


@cache
def _everything() -> tuple[Published, ...]:
    return tuple(_parsed(row) for table in TABLES for row in _rows(table))


def _parsed(row: dict[str, str]) -> Published:
    return Published(
        paper=row["paper"],
        dataset=row["dataset"],
        network=row["network"],
        size=optional_int(row["size"]),
        method=row["method"],
        label=row["label"],
        metric=row["metric"],
        value=optional_float(row["value"]),
        spread=optional_float(row["spread"]),
        part=row["part"],
        protocol=row["protocol"],
        recipe=row["recipe"],
        reported_by=row["reported_by"],
        year=optional_int(row["year"]),
        source=row["source"],
        conditions=row["conditions"],
    )


def _rows(table: str) -> list[dict[str, str]]:
    text = files(__name__).joinpath(f"{table}.csv").read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))
