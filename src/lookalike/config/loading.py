"""Settings as nested mappings: read from YAML, merged, overridden by ``key=value``, validated."""

import re
import reprlib
from collections.abc import Iterable, Mapping
from functools import reduce
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from lookalike.config.keys import key_names, key_path
from lookalike.config.schema import RunConfig
from lookalike.config.yaml_text import parse_yaml
from lookalike.errors import BadInput, did_you_mean
from lookalike.files import read_text

PARTS = ("loss", "miner", "sampler")
"""Sections that name a part; its arguments are dropped when another part replaces it."""


def plain_yaml(path: Path) -> dict[str, Any]:
    """The mapping in a YAML file; ``extends`` is not resolved."""
    try:
        values = parse_yaml(read_text(path))
    except OSError as error:
        raise BadInput(f"cannot read '{path}': {error.strerror}") from error
    except ValueError as error:
        raise BadInput(f"'{path}' is not YAML that can be read: {error}") from error
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise BadInput(f"'{path}' must hold keys and values, not a {type(values).__name__}")
    return values


def merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """``over`` on top of ``base``.

    The arguments of a part are dropped when another part replaces it, except for the batch size,
    which every sampler has. ``model.frozen_until`` names a module of the network and is dropped
    when the network changes. Keys of a transform on top of the name of a preset change this preset.
    """
    result = dict(base)
    for key, value in over.items():
        below = result.get(key)
        if key == "transform" and isinstance(value, dict) and isinstance(below, str):
            below = {"preset": below}
        if isinstance(value, dict) and isinstance(below, dict):
            if key in PARTS and _changes(below, value, "name"):
                below = {name: kept for name, kept in below.items() if name == "batch_size"}
            if key == "model" and _changes(below, value, "network"):
                below = {name: kept for name, kept in below.items() if name != "frozen_until"}
            value = merge(below, value)
        result[key] = value
    return result


def _changes(below: Mapping[str, Any], over: Mapping[str, Any], key: str) -> bool:
    return bool(over.get(key, below.get(key)) != below.get(key))


def set_keys(values: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Nested ``values`` with values by dotted key on top.

    >>> set_keys({"optim": {"name": "sgd"}}, {"optim.lr": 0.1})
    {'optim': {'name': 'sgd', 'lr': 0.1}}
    """
    for key, value in settings.items():
        for part in reversed(key.split(".")):
            value = {part: value}
        values = merge(values, value)
    return dict(values)


def override(values: Mapping[str, Any], setting: str) -> dict[str, Any]:
    """Nested ``values`` with one dotted ``key=value`` on top; the value is read as YAML."""
    key, equals, text = setting.partition("=")
    if not equals or not key:
        raise BadInput(f"'{setting}' is not of the form key=value, for example optim.lr=1e-4")
    try:
        value = parse_yaml(text)
    except ValueError as error:
        raise BadInput(f"the value of '{shortened(setting)}' is not YAML") from error
    if isinstance(value, str) and text[:1] not in "'\"":
        value = text  # a path may contain '#', which begins a comment in YAML
    return set_keys(values, {key: value})


def nested(settings: Iterable[str]) -> dict[str, Any]:
    """Several dotted ``key=value`` as one nested mapping.

    >>> nested(["optim.lr=1e-4", "optim.name=sgd"])
    {'optim': {'lr': 0.0001, 'name': 'sgd'}}
    """
    return reduce(override, settings, {})


def parse(values: Mapping[str, Any], origin: str = "the configuration") -> RunConfig:
    """The complete configuration of a run; an error names ``origin`` and the first invalid key."""
    defaults = RunConfig().model_dump(include={"loss", "sampler"})
    try:
        return RunConfig.model_validate(merge(defaults, values))
    except ValidationError as error:
        raise BadInput(f"{origin}: {explain(error, RunConfig)}") from None


def explain(error: ValidationError, model: type[BaseModel]) -> str:
    """One sentence about the first error of pydantic, with the nearest valid key or value."""
    first = error.errors()[0]
    place, given = key_path(model, first["loc"]), first["input"]
    if first["type"] == "extra_forbidden":
        return f"there is no key '{place}'; {did_you_mean(place, key_names(model))}"
    if first["type"] == "missing":
        return f"the key '{place}' is missing"
    if first["type"] == "literal_error":
        choices = re.findall(r"'([^']*)'", str(first["ctx"]["expected"]))
        return f"{place} = {shown(given)} is invalid; {did_you_mean(given, choices)}"
    message = " ".join(first["msg"].removeprefix("Value error, ").split())
    reason = f"{message[0].lower()}{shortened(message[1:])}"
    return f"{place} = {shown(given)} is invalid: {reason}" if place else reason


def shown(value: Any) -> str:
    """A value as a sentence shows it, however large it is.

    >>> len(shown("x" * 1000)) <= 80
    True
    """
    brief = reprlib.Repr()
    brief.maxstring = brief.maxother = brief.maxlong = 80
    return brief.repr(value)


def shortened(text: str, most: int = 300) -> str:
    """The beginning of a text."""
    return text if len(text) <= most else f"{text[:most]}..."
