"""Experiments that a paper describes, read from a YAML file for the audit.

title: A new loss (Somewhere 2019)
same: {data: cub, optimizer: adam}
experiments:
  - {name: ours, network: resnet50, dim: 512}
  - {name: triplet, network: googlenet, dim: 64, claims: {dim: 512}, omits: [pooling]}
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lookalike.compare.audit import CONDITIONS, NO_VALIDATION, SELECTED_ON_TEST, Experiment
from lookalike.config.loading import plain_yaml
from lookalike.errors import BadInput, did_you_mean

__all__ = ["Description", "describe", "read_description"]

SELECTIONS = ("validation", NO_VALIDATION, SELECTED_ON_TEST)
BESIDES = ("name", "claims", "omits", "score", "note")
NUMBERS = ("dim", "image_size", "steps", "batch_size", "trials", "seeds", "ensemble")


@dataclass(frozen=True)
class Description:
    """A table of a paper: its title, what else there is to say, and its rows."""

    title: str
    source: str
    experiments: tuple[Experiment, ...]


def read_description(path: Path) -> Description:
    """Read the description of a paper's comparison."""
    if not path.is_file():
        raise BadInput(f"there is no file '{path}'")
    return describe(plain_yaml(path), str(path))


def describe(values: Mapping[str, Any], origin: str) -> Description:
    """Check a description; ``origin`` is what a message calls it."""
    for key in values:
        if key not in ("title", "source", "same", "experiments"):
            choices = ["title", "source", "same", "experiments"]
            raise BadInput(f"'{origin}': there is no key '{key}'; {did_you_mean(key, choices)}")
    rows = values.get("experiments")
    if not isinstance(rows, list) or len(rows) < 2:
        raise BadInput(f"'{origin}': experiments must list at least two rows to compare")
    shared = _mapping(values.get("same", {}), "same", origin)
    _check_conditions(shared, "same", origin)
    experiments = tuple(_experiment(row, shared, n, origin) for n, row in enumerate(rows, 1))
    names = [one.name for one in experiments]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise BadInput(f"'{origin}': two experiments are called '{twice[0]}'; names must differ")
    title = str(values.get("title", Path(origin).stem))
    return Description(title, str(values.get("source", "")), experiments)


def _experiment(row: Any, shared: Mapping[str, Any], number: int, origin: str) -> Experiment:
    values = _mapping(row, f"experiment {number}", origin)
    name = values.get("name")
    if not isinstance(name, str) or not name:
        raise BadInput(f"'{origin}': experiment {number} has no name")
    own = {key: value for key, value in values.items() if key not in BESIDES}
    claims = _mapping(values.get("claims", {}), f"claims of '{name}'", origin)
    omits = values.get("omits", [])
    if not isinstance(omits, list):
        raise BadInput(f"'{origin}': omits of '{name}' must be a list of conditions")
    _check_conditions(own, f"'{name}'", origin)
    _check_conditions(claims, f"claims of '{name}'", origin)
    _check_conditions(dict.fromkeys(omits), f"omits of '{name}'", origin)
    score = values.get("score")
    if score is not None and (isinstance(score, bool) or not isinstance(score, int | float)):
        raise BadInput(f"'{origin}': score of '{name}' = {score!r} must be a number")
    conditions = {**shared, **own}
    return Experiment(
        name,
        {key: value for key, value in conditions.items() if value is not None},
        claims,
        tuple(omits),
        score=None if score is None else float(score),
    )


def _mapping(value: Any, place: str, origin: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise BadInput(f"'{origin}': {place} must be keys and values, not {value!r}")
    return value


def _check_conditions(values: Mapping[str, Any], place: str, origin: str) -> None:
    for key, value in values.items():
        if key not in CONDITIONS:
            close = did_you_mean(str(key), CONDITIONS)
            raise BadInput(f"'{origin}': {place}: there is no condition '{key}'; {close}")
        if key == "selection" and value is not None and value not in SELECTIONS:
            close = did_you_mean(str(value), SELECTIONS)
            raise BadInput(f"'{origin}': {place}: selection = {value!r} is invalid; {close}")
        whole = isinstance(value, int) and not isinstance(value, bool)
        if key in NUMBERS and value is not None and not whole:
            raise BadInput(f"'{origin}': {place}: {key} = {value!r} must be a whole number")
        if isinstance(value, dict | list):
            raise BadInput(f"'{origin}': {place}: {key} must be one value")
