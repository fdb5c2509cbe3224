"""Hyper-parameters that others found, as data."""

from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import yaml

__all__ = ["Tuned", "tuned"]


@dataclass(frozen=True)
class Tuned:
    """The settings of a loss that did best on a data set."""

    loss: str
    """Its name in ``create``."""
    dataset: str
    """CUB, Cars, SOP, or CUB-256 (CUB with batches of 256)."""
    values: dict[str, Any]
    """Arguments of the loss."""
    beside: dict[str, Any]
    """Settings that are not the loss's own: ``miner.epsilon``, ``optim.loss_lr``, ..."""
    source: str
    """Where the values come from."""


def tuned(name: str) -> list[Tuned]:
    """The tuned settings of the loss called ``name``, of every data set; none is an empty list.

    >>> tuned("triplet")[0].values
    {'margin': 0.0961}
    """
    return [entry for entry in _entries() if entry.loss == name]


@cache
def _entries() -> tuple[Tuned, ...]:
    text = files("lookalike.losses").joinpath("tuned.yaml").read_text(encoding="utf-8")
    found = []
    for entry in yaml.safe_load(text):
        for dataset, settings in entry["datasets"].items():
            values = {key: value for key, value in settings.items() if "." not in key}
            beside = {key: value for key, value in settings.items() if "." in key}
            found.append(Tuned(entry["loss"], dataset, values, beside, entry["source"]))
    return tuple(found)
