"""Every part that a configuration can name, with a line or a page about each."""

import inspect
from dataclasses import dataclass
from typing import Any

from lookalike import (
    data,
    evaluation,
    losses,
    miners,
    models,
    reducers,
    registry,
    regularizers,
    samplers,
)
from lookalike.config.recipes import Row, find_recipes
from lookalike.errors import BadInput, did_you_mean

# fills the registries
ROOMS = (data, evaluation, losses, miners, models, reducers, regularizers, samplers)
REGISTRIES = {
    part.kind: part for part in vars(registry).values() if isinstance(part, registry.Registry)
}


def catalogue(kind: str) -> list[Row]:
    """Every part of one kind, or every recipe, by name."""
    if kind == "recipes":
        return find_recipes([])
    if kind not in REGISTRIES:
        kinds = [*REGISTRIES, "recipes"]
        raise BadInput(f"there is no list of '{kind}'; {did_you_mean(kind, kinds)}")
    return [Row(e.name, e.summary, e.paper) for e in REGISTRIES[kind].entries()]


@dataclass(frozen=True)
class Page:
    """The description of one part."""

    name: str
    paper: str
    description: str
    defaults: dict[str, Any]
    tuned: list[dict[str, Any]]


def page(kind: str, name: str) -> Page:
    """Formula, paper, defaults and, for a loss, published tuned settings."""
    if kind not in REGISTRIES:
        raise BadInput(f"'{kind}' have no pages; {did_you_mean(kind, REGISTRIES)}")
    entry = REGISTRIES[kind].find(name)
    defaults = {
        argument: "required" if p.default is inspect.Parameter.empty else p.default
        for argument, p in (REGISTRIES[kind].arguments(name) or {}).items()
    }
    found = [vars(settings) for settings in losses.tuned(name)] if kind == "losses" else []
    return Page(name, entry.paper, inspect.getdoc(entry.build) or "", defaults, found)
