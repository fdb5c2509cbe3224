"""The recipes that come with the package: experiments ready to run.

A recipe is a YAML file of its own, or a cell of a grid file (see ``lookalike.config.grids``).
Either is called ``recipe:NAME``, on the command line and in ``extends``.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from lookalike.config.grids import Choice, Grid, read_grids
from lookalike.config.overrides import merge, plain_yaml
from lookalike.errors import BadInput, did_you_mean

__all__ = ["PREFIX", "Recipe", "everything", "folder", "grids", "names", "read", "recipe", "usual"]

PREFIX = "recipe:"
OWN_PICTURES = ("folder", "csv")
"""Data sets of the user's own, which nobody has a recipe for."""
STUDIES = "studies"
"""The folder of studies, which are many runs; a recipe is one."""


@dataclass(frozen=True)
class Recipe:
    """One experiment: its name, a line about it, and where it comes from."""

    name: str
    summary: str
    paper: str
    """Key of the paper; empty for our own."""
    notes: str
    """What differs from the paper, or what the paper leaves open."""
    source: Path | tuple[Grid, Choice]

    def values(self) -> dict[str, Any]:
        """The settings, as a mapping that ``config.parse`` takes."""
        if isinstance(self.source, Path):
            return read(self.source)
        grid, choice = self.source
        return grid.values(choice)


def folder() -> Path:
    """Where the recipes lie: inside the installed package, or in the source tree."""
    inside = Path(__file__).parents[1] / "recipes"
    return inside if inside.is_dir() else Path(__file__).parents[3] / "recipes"


@cache
def everything() -> dict[str, Recipe]:
    """Every recipe by name."""
    found: dict[str, Recipe] = {}
    here = folder()
    for path in sorted(here.rglob("*.yaml")):
        name = str(path.relative_to(here).with_suffix(""))
        if name.startswith(f"{STUDIES}/"):
            continue
        content = plain_yaml(path)
        if "grids" not in content:
            first = path.read_text(encoding="utf-8").partition("\n")[0]
            found[name] = Recipe(name, first.lstrip("# "), "", "", path)
            continue
        for grid in read_grids(path, content):
            for choice in grid.choices():
                cell = grid.name(choice)
                if cell in found:
                    raise BadInput(f"'{path}' makes the recipe '{cell}' twice")
                found[cell] = Recipe(
                    cell, grid.summary(choice), grid.file.paper, grid.notes(choice), (grid, choice)
                )
    return found


def grids() -> list[Grid]:
    """The grids of all files, each once."""
    made = [found.source for found in everything().values()]
    return list({id(source[0]): source[0] for source in made if isinstance(source, tuple)}.values())


def names() -> list[str]:
    """The name of every recipe."""
    return sorted(everything())


def recipe(name: str) -> Recipe:
    """The recipe called ``name``."""
    if name not in everything():
        raise BadInput(f"there is no recipe '{name}'; {did_you_mean(name, everything())}")
    return everything()[name]


def read(given: Path | str, above: tuple[Path, ...] = ()) -> dict[str, Any]:
    """The settings in a YAML file or ``recipe:NAME``; what it ``extends`` is read first."""
    if isinstance(given, str) and given.startswith(PREFIX):
        return recipe(given.removeprefix(PREFIX)).values()
    path = Path(given)
    if path.resolve() in above:
        raise BadInput(f"'{given}' extends itself")
    if not path.is_file():
        raise BadInput(f"there is no file '{given}' ({PREFIX}NAME finds what comes with lookalike)")
    values = plain_yaml(path)
    base = values.pop("extends", None)
    if base is None:
        return values
    if not isinstance(base, str):
        raise BadInput(f"'{path}': extends = {base!r} must be the path of a file or {PREFIX}NAME")
    below: Path | str = base if base.startswith(PREFIX) else path.parent / base
    return merge(read(below, (*above, path.resolve())), values)


def usual(settings: Sequence[str]) -> str | None:
    """The recipe to start from when ``key=value`` settings are all that is given.

    For one's own pictures that is a pretrained network, fine-tuned; else none.

    >>> usual(["data.name=folder", "data.root=photos"])
    'recipe:folder'
    """
    names = [setting.partition("=")[2] for setting in settings if setting.startswith("data.name=")]
    return f"{PREFIX}folder" if names and names[-1] in OWN_PICTURES else None
