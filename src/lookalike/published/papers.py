"""The papers that recipes, published results and hyper-parameters come from."""

import csv
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

__all__ = ["Paper", "papers"]


@dataclass(frozen=True)
class Paper:
    """One paper, and the document that was read."""

    paper: str
    """Its key, with which recipes and tables begin."""
    title: str
    authors: str
    venue: str
    year: int
    document: str


@cache
def papers() -> dict[str, Paper]:
    """Every paper by its key.

    >>> papers()["metrix"].year
    2022
    """
    table = files("lookalike.published").joinpath("papers.csv")
    rows = csv.DictReader(table.read_text(encoding="utf-8").splitlines())
    return {
        row["paper"]: Paper(
            row["paper"],
            row["title"],
            row["authors"],
            row["venue"],
            int(row["year"]),
            row["document"],
        )
        for row in rows
    }
