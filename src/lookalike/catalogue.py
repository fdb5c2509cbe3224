"""Everything that can be named in a configuration, with a line or a page about each."""

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lookalike import data, losses, miners, models, recipes, regularizers, samplers
from lookalike.errors import BadInput, nearest
from lookalike.papers import papers
from lookalike.registry import (
    DATASETS,
    LOSSES,
    MINERS,
    NETWORKS,
    REGULARIZERS,
    SAMPLERS,
    Registry,
)

__all__ = [
    "Page",
    "RecipePage",
    "Row",
    "catalogue",
    "find_recipes",
    "page",
    "recipe_page",
    "tables",
]

ROOMS = (
    data,
    losses,
    miners,
    models,
    regularizers,
    samplers,
)  # importing them fills the registries
REGISTRIES: dict[str, Registry] = {
    registry.kind: registry
    for registry in (LOSSES, MINERS, SAMPLERS, REGULARIZERS, DATASETS, NETWORKS)
}


@dataclass(frozen=True)
class Row:
    """One thing that there is."""

    name: str
    summary: str
    paper: str


def catalogue(kind: str) -> list[Row]:
    """Every part of one kind, or every recipe, by name."""
    if kind == "recipes":
        return find_recipes([])
    if kind not in REGISTRIES:
        kinds = [*REGISTRIES, "recipes"]
        raise BadInput(f"there is no list of '{kind}'; {nearest(kind, kinds)}")
    return [Row(e.name, e.summary, e.paper) for e in REGISTRIES[kind].entries()]


@dataclass(frozen=True)
class Page:
    """What there is to say about one part."""

    name: str
    paper: str
    description: str
    defaults: dict[str, Any]
    tuned: list[dict[str, Any]]


def page(kind: str, name: str) -> Page:
    """Formula, paper, defaults and, for a loss, the settings that others found best."""
    if kind not in REGISTRIES:
        raise BadInput(f"'{kind}' have no pages; {nearest(kind, REGISTRIES)}")
    entry = REGISTRIES[kind].find(name)
    defaults = {
        argument: "required" if p.default is inspect.Parameter.empty else p.default
        for argument, p in (REGISTRIES[kind].arguments(name) or {}).items()
    }
    found = [vars(settings) for settings in losses.tuned(name)] if kind == "losses" else []
    return Page(name, entry.paper, inspect.getdoc(entry.build) or "", defaults, found)


def find_recipes(words: Sequence[str]) -> list[Row]:
    """The recipes whose name, line or paper holds every one of ``words``."""
    found = [
        Row(recipe.name, recipe.summary, recipe.paper)
        for recipe in map(recipes.recipe, recipes.names())
        if all(word.lower() in f"{recipe.name} {recipe.summary}".lower() for word in words)
    ]
    if not found:
        given = " ".join(words)
        raise BadInput(
            f"no recipe has all of '{given}'; {nearest('/'.join(words), recipes.names())}"
        )
    return found


def tables() -> list[Row]:
    """Every recipe that stands alone, and every table of recipes by its pattern and size."""
    alone = [row for row in find_recipes([]) if not row.paper]
    made = [
        Row(grid.spec.name, f"{sum(1 for _ in grid.choices())} recipes", grid.file.paper)
        for grid in recipes.grids()
    ]
    return alone + made


@dataclass(frozen=True)
class RecipePage:
    """What there is to say about one recipe."""

    name: str
    summary: str
    paper: str
    notes: str
    settings: dict[str, Any]
    published: dict[str, float]
    """What the paper reports for it, in per cent."""


def recipe_page(name: str) -> RecipePage:
    """A recipe's settings, what differs from its paper, and what the paper reports."""
    from lookalike.report import published  # a large room, needed for this alone

    found = recipes.recipe(name)
    paper = papers().get(found.paper)
    rows = [row for row in published.load() if row.recipe == name and row.value is not None]
    return RecipePage(
        name,
        found.summary,
        f"{paper.authors}: {paper.title}, {paper.venue} {paper.year}" if paper else "",
        found.notes,
        found.values(),
        {f"{row.part} {row.metric}": row.value for row in rows if row.value is not None},
    )
