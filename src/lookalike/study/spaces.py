"""The methods that are shipped, each with the space its hyper-parameters are searched in."""

from functools import cache
from importlib.resources import files
from typing import Any

import yaml

from lookalike.config.loading import ScientificLoader
from lookalike.errors import BadInput, did_you_mean

__all__ = ["shipped", "space"]


@cache
def shipped() -> dict[str, dict[str, Any]]:
    """Every shipped method by name."""
    text = files("lookalike.study").joinpath("spaces.yaml").read_text(encoding="utf-8")
    found: dict[str, dict[str, Any]] = yaml.load(text, Loader=ScientificLoader)
    return found


def space(name: str) -> dict[str, Any]:
    """The shipped method called ``name``.

    >>> space("triplet")["search"]
    {'loss.margin': [0, 0.5]}
    """
    if name not in shipped():
        raise BadInput(f"there is no search space '{name}'; {did_you_mean(name, shipped())}")
    return shipped()[name]
