"""Hyper-parameters that papers print, as data.

The table is ``report/published/hyperparameters.csv``: one row for each printed value, with what it
means as settings of a run. Losses show it, recipes are made of it, reports list it.
"""

import csv
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

__all__ = ["Hyperparameter", "hyperparameters", "optional_float", "optional_int"]


@dataclass(frozen=True)
class Hyperparameter:
    """One printed value. What the paper does not say is None or empty."""

    paper: str
    dataset: str
    """Name of the data set; empty: used for every one."""
    network: str
    size: int | None
    batch: int | None
    loss: str
    """The loss's name in ``create``; empty: used with every loss."""
    method: str
    """What the recipe is called that uses it; two methods may share a loss."""
    label: str
    """What the paper calls the method."""
    parameter: str
    """What the paper calls the parameter."""
    value: str
    """As printed; empty where the paper prints none."""
    low: float | None
    high: float | None
    step: float | None
    """Range and step of a search, where there was one."""
    settings: tuple[str, ...]
    """The same as ``key=value`` of a run; none where there is nothing to set."""
    source: str
    conditions: str

    @property
    def reimplemented(self) -> bool:
        """Whether it is the value of a public reimplementation, and not of the paper."""
        return "public reimplementation" in self.source


@cache
def hyperparameters() -> tuple[Hyperparameter, ...]:
    """Every row, in the order of the papers' tables.

    >>> first = hyperparameters()[0]
    >>> first.label, first.parameter, first.value, first.settings
    ('Contrastive', 'pos_margin', '-0.2000', ('loss.pos_margin=-0.2000',))
    """
    table = files("lookalike.published").joinpath("hyperparameters.csv")
    rows = csv.DictReader(table.read_text(encoding="utf-8").splitlines())
    return tuple(_parsed(row) for row in rows)


def optional_int(text: str) -> int | None:
    """A number, or None for an empty cell."""
    return int(text) if text else None


def optional_float(text: str) -> float | None:
    """A number, or None for an empty cell."""
    return float(text) if text else None


def _parsed(row: dict[str, str]) -> Hyperparameter:
    return Hyperparameter(
        paper=row["paper"],
        dataset=row["dataset"],
        network=row["network"],
        size=optional_int(row["size"]),
        batch=optional_int(row["batch"]),
        loss=row["loss"],
        method=row["method"],
        label=row["label"],
        parameter=row["parameter"],
        value=row["value"],
        low=optional_float(row["low"]),
        high=optional_float(row["high"]),
        step=optional_float(row["step"]),
        settings=tuple(row["settings"].split()),
        source=row["source"],
        conditions=row["conditions"],
    )
