"""The recipes that come with the package: experiments ready to run.

A recipe is a YAML file of its own, or a cell of a grid file: the tables of a paper, one recipe per
cell. Either is called ``recipe:NAME``, on the command line and in ``extends``. Nothing here imports
torch, so ``lookalike list recipes`` answers immediately.

A grid file has what its recipes share, the axes of the paper's tables, and patterns of names::

    paper: thesis                     # hyper-parameters that this paper prints are filled in
    summary: "{method} on {dataset}"
    common: {data: {transform: proxy-anchor}}
    axes:
      dataset: {cub: {data: {name: cub}}, sop: {data: {name: sop}}}
      method: {triplet: {loss: {name: triplet}}, margin: {loss: {name: margin}}}
    cells:                            # settings of some cells only
      - {when: {dataset: sop}, set: {optim: {lr: 6e-4}}}
      - {when: {method: triplet}, note: "The public code compares squared distances."}
    grids:
      - name: thesis/{dataset}/{method}

A grid iterates over the axes that its name mentions. ``only`` selects some values of an axis, or
one value of an axis that the name does not mention. Settings are merged in this order: common,
axes, printed hyper-parameters, cells, the grid's own ``set``. The page of a recipe shows the file's
``notes``, the grid's ``note`` and each ``note`` of its cell.
"""

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import takewhile
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from lookalike import published
from lookalike.config.keys import declared_keys
from lookalike.config.loading import merge, nested, override, parse, plain_yaml
from lookalike.config.schema import SPLIT_DATASETS, RunConfig
from lookalike.errors import BadInput, did_you_mean
from lookalike.files import read_text
from lookalike.published import Hyperparameter, hyperparameters
from lookalike.registry import trust
from lookalike.shipped import find_shipped, shipped_folder

PREFIX = "recipe:"
RUN_MARK = "# the settings of a run"
"""The first line of a configuration that a run wrote, which may be anybody's."""
STUDIES = "studies"
"""The folder of studies, which are many runs; a recipe is one."""
REPRODUCTIONS = "reproductions"
"""The folder of tables and figures of papers, which select recipes."""


Choice = dict[str, str]
"""One value of each axis."""


class Strict(BaseModel):
    """A part of a grid file; unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", coerce_numbers_to_str=True)


class CellSettings(Strict):
    """Settings of the cells at some values of some axes, and a note about them."""

    when: dict[str, str | list[str]]
    set: dict[str, Any] = {}
    note: str = ""

    def matches(self, choice: Choice) -> bool:
        """Whether a cell is one of these."""
        return all(choice.get(axis) in as_list(values) for axis, values in self.when.items())


class GridSpec(Strict):
    """A pattern of names, and the settings of its recipes."""

    name: str
    only: dict[str, str | list[str]] = {}
    set: dict[str, Any] = {}
    printed: list[str] = ["{method}"]
    summary: str | None = None
    note: str = ""


class GridFile(Strict):
    """The content of a grid file."""

    paper: str = ""
    summary: str
    notes: str = ""
    common: dict[str, Any] = {}
    axes: dict[str, dict[str, dict[str, Any]]]
    cells: list[CellSettings] = []
    grids: list[GridSpec]


@dataclass(frozen=True)
class Grid:
    """The recipes of one pattern."""

    file: GridFile = field(repr=False)
    spec: GridSpec

    def choices(self) -> Iterator[Choice]:
        """Every cell: one value of each axis that the name or ``only`` mentions."""
        mentioned = {*_axes_in(self.spec.name), *self.spec.only}
        axes = [axis for axis in self.file.axes if axis in mentioned]
        columns = (as_list(self.spec.only.get(axis, list(self.file.axes[axis]))) for axis in axes)
        for values in itertools.product(*columns):
            yield dict(zip(axes, values, strict=True))

    def name(self, choice: Choice) -> str:
        """The name of the recipe of a cell."""
        return self.spec.name.format(**choice)

    def summary(self, choice: Choice) -> str:
        """The one-line summary of the recipe of a cell."""
        return (self.spec.summary or self.file.summary).format(**choice)

    def values(self, choice: Choice) -> dict[str, Any]:
        """The settings of a cell, merged."""
        values = self.file.common
        for axis, value in choice.items():
            values = merge(values, self.file.axes[axis][value])
        for pattern in self.spec.printed:
            rows = self._printed(values, pattern.format_map(choice))
            values = merge(values, nested(setting for row in rows for setting in row.settings))
        for cells in self.file.cells:
            if cells.matches(choice):
                values = merge(values, cells.set)
        return merge(values, self.spec.set)

    def notes(self, choice: Choice) -> str:
        """The notes on the recipe of a cell: the file's, the grid's, then the cell's own."""
        own = (cells.note for cells in self.file.cells if cells.matches(choice))
        return "\n\n".join(note for note in (self.file.notes, self.spec.note, *own) if note)

    def _printed(self, values: Mapping[str, Any], method: str) -> tuple[Hyperparameter, ...]:
        """What the paper prints for a method on this data set, network, size and batch."""
        fits = {
            "paper": (self.file.paper,),
            "method": ("", method),
            "dataset": ("", values["data"]["name"]),
            "network": ("", values["model"]["network"]),
            "size": (None, values["model"]["dim"]),
            "batch": (None, values["sampler"]["batch_size"]),
        }
        return tuple(
            row
            for row in hyperparameters()
            if all(getattr(row, column) in allowed for column, allowed in fits.items())
        )


def _axes_in(name: str) -> list[str]:
    """The axes that a pattern of names mentions."""
    return re.findall(r"{(\w+)}", name)


def as_list(given: str | Sequence[str]) -> list[str]:
    """One value or several, as a list."""
    return [given] if isinstance(given, str) else list(given)


@dataclass(frozen=True)
class Row:
    """One line of a list."""

    name: str
    summary: str
    paper: str
    """Key of the paper; empty for our own."""


@dataclass(frozen=True)
class Recipe(Row):
    """One experiment, and where its settings come from."""

    notes: str
    """What differs from the paper, or what the paper leaves open."""
    source: Path | tuple[Grid, Choice]

    def values(self) -> dict[str, Any]:
        """The settings, as a mapping that ``config.parse`` takes."""
        if isinstance(self.source, Path):
            return read(self.source)
        grid, choice = self.source
        return grid.values(choice)


@dataclass(frozen=True)
class RecipePage(Row):
    """Everything about one recipe."""

    notes: str
    settings: dict[str, Any]
    published: dict[str, float | None]
    """What the paper reports for it, in per cent."""


def folder() -> Path:
    """The folder of the recipes: inside the installed package, or in the source tree."""
    return shipped_folder("recipes")


@cache
def all_recipes() -> dict[str, Recipe]:
    """Every recipe by name."""
    found: dict[str, Recipe] = {}
    root = folder()
    for path in sorted(root.rglob("*.yaml")):
        name = str(path.relative_to(root).with_suffix(""))
        if name.startswith((f"{STUDIES}/", f"{REPRODUCTIONS}/")):
            continue
        content = plain_yaml(path)
        if "grids" not in content:
            found[name] = Recipe(name, _first_comment(path), "", "", path)
            continue
        file = GridFile.model_validate(content)
        for grid in (Grid(file, spec) for spec in file.grids):
            for choice in grid.choices():
                cell, summary = grid.name(choice), grid.summary(choice)
                found[cell] = Recipe(cell, summary, file.paper, grid.notes(choice), (grid, choice))
    return found


def studies() -> list[Row]:
    """Every study that comes with the package; ``recipe:NAME`` runs one."""
    found = sorted((folder() / STUDIES).glob("*.yaml"))
    return [Row(f"{STUDIES}/{path.stem}", _first_comment(path), "") for path in found]


def study_text(name: str) -> str:
    """The file of a study that comes with the package."""
    known = {row.name.removeprefix(f"{STUDIES}/"): row for row in studies()}
    wanted = name.removeprefix(f"{STUDIES}/")
    if wanted not in known:
        raise BadInput(f"there is no study '{name}'; {did_you_mean(wanted, known)}")
    return (folder() / STUDIES / f"{wanted}.yaml").read_text(encoding="utf-8")


def _first_comment(path: Path) -> str:
    """The first sentence of the comment at the top of a file."""
    lines = path.read_text(encoding="utf-8").splitlines()
    comment = " ".join(line.lstrip("# ") for line in takewhile(lambda x: x.startswith("#"), lines))
    return re.split(r"(?<!\bal)\. ", comment)[0].rstrip(".")


def names() -> list[str]:
    """The name of every recipe."""
    return sorted(all_recipes())


def recipe(name: str) -> Recipe:
    """The recipe called ``name``."""
    if name not in all_recipes():
        raise BadInput(f"there is no recipe '{name}'; {did_you_mean(name, all_recipes())}")
    return all_recipes()[name]


def read(given: Path | str, above: tuple[Path, ...] = ()) -> dict[str, Any]:
    """The settings in a YAML file or ``recipe:NAME``, on top of those that it ``extends``.

    ``above`` are the files that are being read, each extending the next; to detect cycles.
    """
    if isinstance(given, str) and given.startswith(PREFIX):
        return recipe(given.removeprefix(PREFIX)).values()
    try:
        path = find_shipped(Path(given))
    except OSError as error:  # such as a name that is too long
        raise BadInput(f"cannot read '{given}': {error.strerror}") from error
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


def load(given: Path | str | None, overrides: Iterable[str] = ()) -> RunConfig:
    """The configuration of a run: a YAML file, ``recipe:NAME`` or the defaults, then overrides.

    >>> load(None, ["loss.name=triplet", "optim.lr=1e-4"]).optim.lr
    0.0001
    """
    values = read(given) if given is not None else {}
    declared = declared_keys(RunConfig).items()
    short = {name.rpartition(".")[2]: name for name, one in declared if one.key.short}
    for setting in overrides:
        key = setting.partition("=")[0]
        values = override(values, short.get(key, key) + setting.removeprefix(key))
    return parse(values, origin=str(given) if given is not None else "the command line")


def load_trusted(given: Path | str | None, overrides: Iterable[str] = ()) -> RunConfig:
    """:func:`load`, for what the user wants to train: code that the settings name is trusted.

    Of a file that a run wrote, which may be anybody's, only the names among ``overrides`` are.
    """
    settings = list(overrides)
    trust(nested(settings))
    if given is not None and not _is_of_run(given):
        trust(read(given))
    return load(given, settings)


def _is_of_run(given: Path | str) -> bool:
    try:
        return read_text(given, errors="replace").startswith(RUN_MARK)
    except OSError:  # a name of ours, or none: ``read`` says it
        return False


def default_recipe(settings: Sequence[str]) -> str | None:
    """The recipe to start from when only ``key=value`` settings are given.

    For a user's own images that is a pretrained network, fine-tuned; otherwise none.

    >>> default_recipe(["data.name=folder", "data.root=photos"])
    'recipe:folder'
    """
    chosen = [setting.partition("=")[2] for setting in settings if setting.startswith("data.name=")]
    return f"{PREFIX}folder" if chosen and chosen[-1] not in SPLIT_DATASETS else None


def find_recipes(words: Sequence[str]) -> list[Row]:
    """The recipes whose name, summary, or paper's title or authors contain all ``words``."""
    found = [
        Row(one.name, one.summary, one.paper)
        for one in map(recipe, names())
        if all(word.lower() in _searched_text(one) for word in words)
    ]
    if not found:
        given = " ".join(words)
        raise BadInput(f"no recipe matches '{given}'; {did_you_mean('/'.join(words), names())}")
    return found


def _searched_text(one: Recipe) -> str:
    paper = published.papers().get(one.paper)
    about = f"{paper.title} {paper.authors}" if paper else ""
    return f"{one.name} {one.summary} {about}".lower()


def tables() -> list[Row]:
    """Every recipe that has a file of its own, and every grid by its pattern and size."""
    alone = [row for row in find_recipes([]) if not row.paper]
    sources = [one.source for one in all_recipes().values()]
    grids = {id(source[0]): source[0] for source in sources if isinstance(source, tuple)}
    return alone + [
        Row(grid.spec.name, f"{sum(1 for _ in grid.choices())} recipes", grid.file.paper)
        for grid in grids.values()
    ]


def recipe_page(name: str) -> RecipePage:
    """A recipe's settings, what differs from its paper, and what the paper reports."""
    found = recipe(name)
    paper = published.papers().get(found.paper)
    about = f"{paper.authors}: {paper.title}, {paper.venue} {paper.year}" if paper else ""
    rows = (row for row in published.load() if row.recipe == name and row.value is not None)
    values = {f"{row.part} {row.metric}": row.value for row in rows}
    return RecipePage(name, found.summary, about, found.notes, found.values(), values)
