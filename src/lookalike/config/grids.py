"""Many recipes in one file: the tables of a paper, one recipe a cell.

A grid file has what its recipes share, the axes of the paper's tables, and patterns of names::

    paper: thesis                     # printed hyper-parameters of this paper are filled in
    summary: "{method} on {dataset}"
    common: {data: {transform: proxy-anchor}}
    axes:
      dataset: {cub: {data: {name: cub}}, sop: {data: {name: sop}}}
      method: {triplet: {loss: {name: triplet}}, margin: {loss: {name: margin}}}
    cells:                            # what holds for some cells only
      - {when: {dataset: sop}, set: {optim: {lr: 6e-4}}}
      - {when: {method: triplet}, note: "The public code compares squared distances."}
    grids:
      - name: thesis/{dataset}/{method}

A grid runs over the axes that its name mentions. ``only`` takes some values of an axis, and one
value of an axis that the name does not mention; ``set`` comes last. Settings are merged in this
order: common, axes, printed hyper-parameters, cells, the grid's own. The page of a recipe shows the
file's ``notes`` and each ``note`` of its cell.
"""

import itertools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from lookalike.config.overrides import merge, nested
from lookalike.errors import BadInput, did_you_mean
from lookalike.published import Hyperparameter, hyperparameters

__all__ = ["Choice", "Grid", "read_grids"]

Choice = dict[str, str]
"""One value of each axis."""


class Strict(BaseModel):
    """A part of a grid file; nothing unknown gets in."""

    model_config = ConfigDict(extra="forbid", coerce_numbers_to_str=True)


class Cells(Strict):
    """Settings of the cells that lie at some values of some axes, and what is to say of them."""

    when: dict[str, str | list[str]]
    set: dict[str, Any] = {}
    note: str = ""

    def hold(self, choice: Choice) -> bool:
        """Whether a cell is one of these."""
        return all(choice.get(axis) in listed(given) for axis, given in self.when.items())


class GridSpec(Strict):
    """A pattern of names, and what its recipes have of their own."""

    name: str
    only: dict[str, str | list[str]] = {}
    set: dict[str, Any] = {}
    printed: list[str] = ["{method}"]
    summary: str | None = None


class GridFile(Strict):
    """What stands in a grid file."""

    paper: str = ""
    summary: str
    notes: str = ""
    common: dict[str, Any] = {}
    axes: dict[str, dict[str, dict[str, Any]]]
    cells: list[Cells] = []
    grids: list[GridSpec]


@dataclass(frozen=True)
class Grid:
    """The recipes of one pattern."""

    file: GridFile = field(repr=False)
    spec: GridSpec

    def choices(self) -> Iterator[Choice]:
        """Every cell: one value of each axis that the name or ``only`` mentions."""
        mentioned = re.findall(r"{(\w+)}", self.spec.name)
        axes = [axis for axis in self.file.axes if axis in mentioned or axis in self.spec.only]
        for values in itertools.product(*(self._values(axis) for axis in axes)):
            yield dict(zip(axes, values, strict=True))

    def name(self, choice: Choice) -> str:
        """The name of the recipe of a cell."""
        return self.spec.name.format(**choice)

    def summary(self, choice: Choice) -> str:
        """A line about the recipe of a cell."""
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
            if cells.hold(choice):
                values = merge(values, cells.set)
        return merge(values, self.spec.set)

    def notes(self, choice: Choice) -> str:
        """What is to say of the recipe of a cell: the file's notes, then those of the cell."""
        own = (cells.note for cells in self.file.cells if cells.hold(choice))
        return "\n\n".join(note for note in (self.file.notes, *own) if note)

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

    def _values(self, axis: str) -> list[str]:
        return listed(self.spec.only.get(axis, list(self.file.axes[axis])))


def read_grids(path: Path, content: Mapping[str, Any]) -> list[Grid]:
    """The grids of a file, checked: every axis and value they mention is there."""
    try:
        file = GridFile.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise BadInput(f"'{path}': {place}: {first['msg'][0].lower()}{first['msg'][1:]}") from None
    for mentioned in [*(cells.when for cells in file.cells), *(g.only for g in file.grids)]:
        for axis, given in mentioned.items():
            known = file.axes.get(axis)
            if known is None:
                raise BadInput(f"'{path}': no axis '{axis}'; {did_you_mean(axis, file.axes)}")
            for value in listed(given):
                if value not in known:
                    raise BadInput(f"'{path}': no {axis} '{value}'; {did_you_mean(value, known)}")
    grids = [Grid(file, spec) for spec in file.grids]
    for grid in grids:
        for axis in re.findall(r"{(\w+)}", grid.spec.name):
            if axis not in file.axes:
                raise BadInput(f"'{path}': no axis '{axis}'; {did_you_mean(axis, file.axes)}")
    return grids


def listed(given: str | list[str]) -> list[str]:
    """One value or several, as a list."""
    return [given] if isinstance(given, str) else given
