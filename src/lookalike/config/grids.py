"""Many recipes in one file: the tables of a paper, one recipe per cell.

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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from lookalike.config.loading import explain, merge, nested
from lookalike.errors import BadInput, did_you_mean
from lookalike.published import Hyperparameter, hyperparameters

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
        return all(choice.get(axis) in as_list(given) for axis, given in self.when.items())


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


def read_grids(path: Path, content: Mapping[str, Any]) -> list[Grid]:
    """The grids of a file; every axis and value that they mention must exist."""
    try:
        file = GridFile.model_validate(content)
    except ValidationError as error:
        raise BadInput(f"'{path}': {explain(error, GridFile)}") from None
    named: list[Mapping[str, str | Sequence[str]]] = [cells.when for cells in file.cells]
    named += [spec.only for spec in file.grids]
    named += [dict.fromkeys(_axes_in(spec.name), ()) for spec in file.grids]
    for mentioned in named:
        for axis, given in mentioned.items():
            if axis not in file.axes:
                raise BadInput(f"'{path}': no axis '{axis}'; {did_you_mean(axis, file.axes)}")
            known = file.axes[axis]
            for value in as_list(given):
                if value not in known:
                    raise BadInput(f"'{path}': no {axis} '{value}'; {did_you_mean(value, known)}")
    return [Grid(file, spec) for spec in file.grids]


def _axes_in(name: str) -> list[str]:
    """The axes that a pattern of names mentions."""
    return re.findall(r"{(\w+)}", name)


def as_list(given: str | Sequence[str]) -> list[str]:
    """One value or several, as a list."""
    return [given] if isinstance(given, str) else list(given)
