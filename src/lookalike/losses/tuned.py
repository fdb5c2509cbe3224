"""Hyper-parameters of losses that others found, from the papers' tables."""

from dataclasses import dataclass
from functools import cache
from itertools import groupby
from typing import Any

from lookalike.config.loading import nested
from lookalike.published import Hyperparameter, hyperparameters, papers

__all__ = ["Tuned", "tuned"]

SHOWN = {"cub": "CUB", "cars": "Cars", "sop": "SOP", "": "all"}


@dataclass(frozen=True)
class Tuned:
    """The settings of a loss that did best on a data set."""

    loss: str
    """Its name in ``create``."""
    dataset: str
    """CUB, Cars, SOP, CUB-256 (CUB with batches of 256), or all that a paper uses."""
    values: dict[str, Any]
    """Arguments of the loss."""
    beside: dict[str, Any]
    """Settings that are not the loss's own: ``miner.epsilon``, ``optim.loss_lr``, ..."""
    source: str
    """The paper, its method where the loss's name does not tell it, and whose values they are."""


def tuned(name: str) -> list[Tuned]:
    """The tuned settings of a loss that papers report.

    Args:
        name: The loss by its name in ``create``.

    Returns:
        One entry per data set; an empty list where there is none.

    >>> tuned("triplet")[0].values
    {'margin': 0.0961}
    """
    return [entry for entry in _entries() if entry.loss == name]


@cache
def _entries() -> tuple[Tuned, ...]:
    rows = sorted((row for row in hyperparameters() if row.loss and row.settings), key=_paper_first)
    groups = groupby(rows, key=lambda row: (row.paper, row.method, row.dataset, row.batch))
    return tuple(_entry(tuple(group)) for _, group in groups)


def _paper_first(row: Hyperparameter) -> tuple[int, str, int, int]:
    order = list(SHOWN)
    return list(papers()).index(row.paper), row.method, row.batch or 0, order.index(row.dataset)


def _entry(rows: tuple[Hyperparameter, ...]) -> Tuned:
    first = rows[0]
    settings = nested(setting for row in rows for setting in row.settings)
    values = settings.pop("loss", {})
    if values.get("num_classes") == "auto":  # a run knows how many there are; a loss alone does not
        settings["loss"] = {"num_classes": values.pop("num_classes")}
    others = {
        f"{part}.{key}": value for part, keys in settings.items() for key, value in keys.items()
    }
    source = papers()[first.paper].title
    if first.method != first.loss:
        source += f", {first.method}"
    if first.reimplemented:
        source += " (values of a public reimplementation)"
    if any("Reality Check" in row.conditions for row in rows):
        source += " (the Reality Check's values for CUB, rounded)"
    large = first.paper == "reality-check" and first.batch == 256
    return Tuned(
        first.loss,
        SHOWN[first.dataset] + ("-256" if large else ""),
        values,
        others,
        source,
    )
