"""The reference: the public API, the commands and the recipes, from the code itself."""

import importlib
import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from lookalike.cli import app
from lookalike.config.recipes import find_recipes
from lookalike.registry import LOSSES, Registry
from website.markdown import staged, table

ROOT = Path(__file__).parents[1]
ROOMS: dict[str, tuple[str, ...]] = {
    "lookalike": ("api", "training.estimator.MetricLearner"),
    "losses": ("losses",),
    "miners": ("miners",),
    "samplers": ("samplers",),
    "reducers": ("reducers",),
    "regularizers": ("regularizers",),
    "distances": ("distances",),
    "relations": ("relations", "labels"),
    "memory": ("memory",),
    "mixing": ("mixing",),
    "models": ("models",),
    "data": ("data",),
    "evaluation": ("evaluation",),
    "training": ("training",),
    "search": ("search",),
    "config": ("config",),
    "papers": ("published", "papers"),
    "report": ("report",),
    "registry": ("registry", "progress", "errors"),
}
"""The pages of the API: what each is called, and the modules or classes that it shows."""


@dataclass(frozen=True)
class Page:
    """A generated page."""

    path: str
    """Below the folder of all pages."""
    title: str
    description: str
    body: str


def api_pages() -> Iterator[Page]:
    """A page for each part of the public API, made by mkdocstrings from docstrings."""
    for name, paths in ROOMS.items():
        title = "lookalike" if name == "lookalike" else f"lookalike.{name}"
        lines = []
        for path in paths:
            for public, thing in _public(f"lookalike.{path}"):
                lines += [f"::: {public}", ""]
                if name == "losses" and any(entry.build is thing for entry in LOSSES.entries()):
                    lines[-1:] = ["    options:", "      members: false", ""]
        first = inspect.getdoc(importlib.import_module(title)) or ""
        summary = first.partition("\n")[0].rstrip(".")
        about = f"Classes and functions of {title}: {summary}."
        body = "\n".join([f"# `{title}`", "", f"{summary}.", "", *lines])
        yield Page(f"reference/api/{name}.md", title, about, body)


def _public(path: str) -> Iterator[tuple[str, Any]]:
    """What ``__all__`` of a module names, or all names in it, or the class of that path itself."""
    try:
        module = importlib.import_module(path)
    except ModuleNotFoundError:
        parent, _, name = path.rpartition(".")
        yield path, getattr(importlib.import_module(parent), name)
        return
    names = getattr(module, "__all__", None) or [n for n in vars(module) if not n.startswith("_")]
    for name in sorted(names, key=str.lower):
        thing = getattr(module, name)
        if not (inspect.ismodule(thing) or isinstance(thing, Registry)):
            yield f"{path}.{name}", thing


def command_pages() -> Iterator[Page]:
    """A page with every command, its arguments and options, from the command line itself."""
    parts = ["# Commands", "", "What `lookalike COMMAND --help` prints, on one page.", ""]
    root: Any = typer.main.get_command(app)
    for name, command in root.commands.items():
        parts += _command(f"lookalike {name}", command)
    about = "Every command of Lookalike with its arguments, options and defaults."
    yield Page("reference/commands.md", "Commands", about, "\n".join(parts))


def _command(name: str, command: Any, level: int = 2) -> list[str]:
    text = inspect.cleandoc((command.help or "").replace("\b", ""))
    wrapped = r"^Examples?: (.+(?:\n(?!Examples?:).+)*)\n?"  # an example may go on in the next line
    examples = [" ".join(one.split()) for one in re.findall(wrapped, text, re.MULTILINE)]
    about = re.sub(wrapped, "", text, flags=re.MULTILINE).strip()
    lines = [f"{'#' * level} `{name}`", "", about, ""]
    if examples:
        lines += ["```sh", *examples, "```", ""]
    rows = [_parameter(one) for one in command.params if not one.hidden]
    rows = [row for row in rows if row[0] != "`--help`"]
    if rows:
        lines += [table(("argument or option", "default", "meaning"), rows), ""]
    for inner, below in getattr(command, "commands", {}).items():
        lines += _command(f"{name} {inner}", below, level + 1)
    return lines


def _parameter(one: Any) -> tuple[str, str, str]:
    names = [*one.opts, *one.secondary_opts]
    if not names[0].startswith("-"):
        names = [one.metavar or one.name.upper() + ("..." if one.nargs == -1 else "")]
    default = "required" if one.required else ""
    if not one.required and one.default not in (None, False, [], ()):
        default = f"`{getattr(one.default, 'value', one.default)}`"
    return ", ".join(f"`{name}`" for name in names), default, (one.help or "").strip()


def recipe_pages() -> Iterator[Page]:
    """A page with every recipe, by paper."""
    rows = find_recipes([])
    parts = [
        "# List of recipes",
        "",
        f"The {len(rows):,} recipes that come with the package, as `lookalike list recipes` prints "
        "them; `lookalike list recipes NAME` shows one. What they are: [recipes](../recipes.md).",
        "",
    ]
    papers = sorted({row.paper for row in rows})
    for paper in papers:
        of_paper = [row for row in rows if row.paper == paper]
        parts += [f"## {paper or 'Our own'}", ""]
        if len(of_paper) > 12:
            parts += [f"<details markdown><summary>{len(of_paper)} recipes</summary>", ""]
        cells = [(f"`{row.name}`", row.summary) for row in of_paper]
        parts += [table(("recipe", "what it is"), cells), ""]
        if len(of_paper) > 12:
            parts += ["</details>", ""]
    about = "All recipes of Lookalike by paper: experiments that are ready to run."
    yield Page("reference/recipes.md", "List of recipes", about, "\n".join(parts))


def benchmark_pages() -> Iterator[Page]:
    """The pages that ``make bench`` writes."""
    for path in sorted((ROOT / "docs" / "benchmarks").glob("*.md")):
        title = path.stem.replace("_", " ").capitalize()
        about = f"Measured by a benchmark of this repository: {title.lower()}."
        body = staged(path.read_text(encoding="utf-8"), path.relative_to(ROOT / "docs"))
        yield Page(f"benchmarks/{path.name}", title, about, body)
