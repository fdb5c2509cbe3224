"""Recipes for people to look through: by words, by table, one whole.

Nothing here needs torch, so that the command answers at once.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lookalike.config import recipes
from lookalike.errors import BadInput, did_you_mean
from lookalike.published import papers

__all__ = ["RecipePage", "Row", "find_recipes", "recipe_page", "tables"]


@dataclass(frozen=True)
class Row:
    """One thing that there is."""

    name: str
    summary: str
    paper: str


def find_recipes(words: Sequence[str]) -> list[Row]:
    """The recipes whose name, line, or paper's title or authors hold every one of ``words``."""
    found = [
        Row(recipe.name, recipe.summary, recipe.paper)
        for recipe in map(recipes.recipe, recipes.names())
        if all(word.lower() in _text(recipe) for word in words)
    ]
    if not found:
        given = " ".join(words)
        raise BadInput(
            f"no recipe has all of '{given}'; {did_you_mean('/'.join(words), recipes.names())}"
        )
    return found


def _text(recipe: recipes.Recipe) -> str:
    paper = papers().get(recipe.paper)
    about = f"{paper.title} {paper.authors}" if paper else ""
    return f"{recipe.name} {recipe.summary} {about}".lower()


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
    from lookalike import published

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
