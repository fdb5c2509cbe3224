"""Nested settings: read from YAML, merged, overridden by dotted ``key=value``."""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from lookalike.errors import BadInput

__all__ = ["PARTS", "merge", "nested", "override", "plain_yaml"]

PARTS = ("loss", "miner", "sampler")
"""Sections that name a part; its arguments go when another part takes its place."""


def plain_yaml(path: Path) -> dict[str, Any]:
    """The mapping in a YAML file, as it stands there."""
    try:
        values = yaml.load(path.read_text(encoding="utf-8"), Loader=ScientificLoader)
    except OSError as error:
        raise BadInput(f"cannot read '{path}': {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise BadInput(f"'{path}' is not YAML: {' '.join(str(error).split())}") from error
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise BadInput(f"'{path}' must hold keys and values, not a {type(values).__name__}")
    return values


def merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """``over`` on top of ``base``; arguments of a part go when another part takes its place.

    Only the batch size stays: every sampler has one. The module ``model.frozen_until`` belongs to
    a network, and goes with it.
    """
    result = dict(base)
    for key, value in over.items():
        below = result.get(key)
        if isinstance(value, dict) and isinstance(below, dict):
            if key in PARTS and renamed(below, value, "name"):
                below = {name: kept for name, kept in below.items() if name == "batch_size"}
            if key == "model" and renamed(below, value, "network"):
                below = {name: kept for name, kept in below.items() if name != "frozen_until"}
            value = merge(below, value)
        result[key] = value
    return result


def renamed(below: Mapping[str, Any], over: Mapping[str, Any], key: str) -> bool:
    """Whether ``over`` has another ``key`` than ``below``."""
    return bool(over.get(key, below.get(key)) != below.get(key))


def override(values: Mapping[str, Any], setting: str) -> dict[str, Any]:
    """``values`` with one dotted ``key=value`` on top; the value is read as YAML."""
    key, equals, text = setting.partition("=")
    if not equals or not key:
        raise BadInput(f"'{setting}' is not of the form key=value, for example optim.lr=1e-4")
    try:
        value = yaml.load(text, Loader=ScientificLoader)
    except yaml.YAMLError as error:
        raise BadInput(f"the value of '{setting}' is not YAML") from error
    if isinstance(value, str) and text[:1] not in "'\"":
        value = text  # a path may hold a '#', which YAML takes for a comment
    for part in reversed(key.split(".")):
        value = {part: value}
    return merge(values, value)


def nested(settings: Iterable[str]) -> dict[str, Any]:
    """Several dotted ``key=value`` as one nested mapping.

    >>> nested(["optim.lr=1e-4", "optim.name=sgd"])
    {'optim': {'lr': 0.0001, 'name': 'sgd'}}
    """
    values: dict[str, Any] = {}
    for setting in settings:
        values = override(values, setting)
    return values


class ScientificLoader(yaml.SafeLoader):
    """YAML that reads 1e-4 as a number; plain YAML 1.1 wants 1.0e-4."""


ScientificLoader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?(\d+(\.\d*)?|\.\d+)[eE][-+]?\d+$"),
    list("-+.0123456789"),
)
