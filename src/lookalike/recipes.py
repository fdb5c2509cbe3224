"""The recipes that come with the package: experiments ready to run."""

from pathlib import Path

from lookalike.errors import BadInput, nearest

__all__ = ["find", "folder", "names"]


def folder() -> Path:
    """Where the recipes lie: inside the installed package, or in the source tree."""
    inside = Path(__file__).parent / "recipes"
    return inside if inside.is_dir() else Path(__file__).parents[2] / "recipes"


def names() -> list[str]:
    """Every recipe, by its path without the ending."""
    here = folder()
    return sorted(str(path.relative_to(here).with_suffix("")) for path in here.rglob("*.yaml"))


def find(given: str) -> Path:
    """The file behind a path, or behind ``recipe:name``."""
    if given.startswith("recipe:"):
        name = given.removeprefix("recipe:")
        if name not in names():
            raise BadInput(f"there is no recipe '{name}'; {nearest(name, names())}")
        return folder() / f"{name}.yaml"
    path = Path(given)
    if not path.is_file():
        raise BadInput(f"there is no file '{given}' (recipe:NAME finds what comes with lookalike)")
    return path
