"""From an entry of the catalogue to the recipes that it selects, and what they need.

Nothing here imports torch, so that the catalogue is listed at once.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from pydantic import TypeAdapter, ValidationError

from lookalike.config import RunConfig, parse, recipes
from lookalike.config.grids import Choice, Grid, as_list
from lookalike.config.loading import merge
from lookalike.errors import BadInput, did_you_mean
from lookalike.papers.catalogue import Entry, Selection
from lookalike.study.config import shipped_methods
from lookalike.study.tuning import SearchSpace, TunerConfig, trials_asked

__all__ = ["Cell", "cells", "folds_of", "needs", "recipe_config", "trainings_of"]

FILE_ONLY = ("bn-inception",)
"""Networks whose weights are on no hub."""


@dataclass(frozen=True)
class Cell:
    """One recipe of a grid that an entry selects."""

    entry: Entry
    selection: Selection
    grid: Grid
    choice: Choice

    @property
    def recipe(self) -> str:
        """The name of the recipe."""
        return self.grid.name(self.choice)

    @property
    def method(self) -> str:
        """What the row is called."""
        return self.selection.method.format(**self.choice)

    @property
    def axes(self) -> dict[str, str]:
        """The values of what varies besides the method."""
        return {axis: self.choice[axis] for axis in self.entry.axes}

    @property
    def config(self) -> RunConfig:
        """The recipe with the entry's settings on top."""
        changes = self.entry.set
        if self.entry.metrics:
            changes = merge(changes, {"protocol": {"metrics": list(self.entry.metrics)}})
        space = self._shipped_space()
        changes = merge(changes, {part: space[part] for part in ("loss", "miner") if part in space})
        config = recipe_config(self.recipe)
        if not changes:
            return config
        return parse(merge(config.model_dump(mode="json"), changes), f"recipe:{self.recipe}")

    @property
    def search(self) -> SearchSpace:
        """What is searched for; empty where nothing is."""
        given = self._shipped_space().get("search", self.entry.search)
        try:
            return TypeAdapter(SearchSpace).validate_python(given)
        except ValidationError as error:
            raise BadInput(f"'{self.entry.name}': the search space is invalid: {error}") from None

    def _shipped_space(self) -> Mapping[str, Any]:
        return shipped_methods()[self.entry.space.format(**self.choice)] if self.entry.space else {}


def cells(entry: Entry) -> Iterator[Cell]:
    """The recipes that an entry selects.

    Args:
        entry: The table or figure.

    Yields:
        Cells, in the order of the document; none for a list.

    Raises:
        BadInput: There is no such grid, or it has no such value.
    """
    grids = _grids()
    for selection in entry.select:
        if selection.grid not in grids:
            close = did_you_mean(selection.grid, grids)
            raise BadInput(f"'{entry.name}': there is no grid '{selection.grid}'; {close}")
        grid = grids[selection.grid]
        choices = list(grid.choices())
        for axis, values in selection.only.items():
            known = {choice.get(axis, "") for choice in choices}
            for value in as_list(values):
                if value not in known:
                    close = did_you_mean(value, known)
                    raise BadInput(f"'{entry.name}': no {axis} '{value}'; {close}")
        for choice in choices:
            if all(choice[axis] in as_list(values) for axis, values in selection.only.items()):
                yield Cell(entry, selection, grid, choice)


@cache
def recipe_config(name: str) -> RunConfig:
    """The configuration of a recipe.

    Args:
        name: The name of the recipe.

    Returns:
        The configuration, always the same object.
    """
    return parse(recipes.recipe(name).values(), f"recipe:{name}")


def folds_of(config: RunConfig) -> int:
    """How many models one repeat trains.

    Args:
        config: A run.

    Returns:
        The number of folds.
    """
    protocol = config.protocol
    return protocol.folds if protocol.name == "cross-validation" else 1


def trainings_of(config: RunConfig, search: SearchSpace, tuner: TunerConfig, repeats: int) -> int:
    """How many models a row trains: trials and repeats, on every fold.

    Args:
        config: Its run.
        search: What is searched for.
        tuner: How.
        repeats: Trainings with new seeds.

    Returns:
        The number of trainings.
    """
    if not config.train.epochs:
        return 0
    return (trials_asked(tuner, search) + repeats) * folds_of(config)


def needs(entry: Entry) -> dict[str, Any]:
    """What an entry needs, as JSON values.

    Args:
        entry: The table or figure.

    Returns:
        Data sets, networks and trainings at the paper's scale, and what images small scale needs.
    """
    tuner = TunerConfig(name=entry.tuner.name, trials=entry.tuner.trials, prune=False)
    found = [] if entry.drawn else [(cell.config, cell.search) for cell in cells(entry)]
    networks = sorted({config.model.network for config, _ in found})
    return {
        "data": sorted({config.data.name for config, _ in found}),
        "networks": networks,
        "weights": {n: "file" if n in FILE_ONLY else "imagenet" for n in networks},
        "photographs": entry.photographs,
        "trainings": sum(
            trainings_of(config, search, tuner, entry.repeats) for config, search in found
        ),
        "small": None if not found else ("photographs" if entry.photographs else "glyphs"),
    }


@cache
def _grids() -> dict[str, Grid]:
    sources = (one.source for one in recipes.all_recipes().values())
    return {source[0].spec.name: source[0] for source in sources if isinstance(source, tuple)}
