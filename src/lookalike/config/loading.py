"""Settings as nested mappings: read from YAML, merged, overridden by ``key=value``, validated."""

import re
import reprlib
from collections.abc import Iterable, Mapping
from functools import reduce
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError

from lookalike.config.keys import declared_keys, key_path
from lookalike.config.schema import PartConfig, RunConfig
from lookalike.errors import BadInput, did_you_mean
from lookalike.files import read_text

MOST_CHARACTERS = 5_000_000
MOST_VALUES = 100_000
"""Counted as often as aliases repeat them: ten short lines can mean thousands of millions."""
DEEPEST = 50
TAG = "tag:yaml.org,2002:"


class Loader(yaml.SafeLoader):
    """YAML as plain values: no code, no bytes or sets, a date is a text, and 1e-4 is a number."""

    def get_single_data(self) -> Any:
        """The values of the only document; a limit on their number comes before they are made."""
        node = self.get_single_node()
        if node is None:
            return None
        if expanded_size(node, {}, 0) > MOST_VALUES:
            raise yaml.YAMLError(f"it has more than {MOST_VALUES:,} values, repeated ones included")
        return self.construct_document(node)


Loader.yaml_constructors = {
    tag: Loader.construct_yaml_str if tag == f"{TAG}timestamp" else construct
    for tag, construct in yaml.SafeLoader.yaml_constructors.items()
    if tag not in [f"{TAG}{kind}" for kind in ("binary", "set", "omap", "pairs")]
}
Loader.add_implicit_resolver(
    f"{TAG}float",
    re.compile(r"^[-+]?(\d+(\.\d*)?|\.\d+)[eE][-+]?\d+$"),
    list("-+.0123456789"),
)


def expanded_size(node: yaml.Node, known: dict[int, int], depth: int) -> int:
    """How many values a node and all below it are; ``known`` has those that were counted."""
    if id(node) in known:
        return known[id(node)]
    if depth > DEEPEST:
        raise yaml.YAMLError(f"it is nested more than {DEEPEST} deep, or contains itself")
    size = 1
    if isinstance(node, yaml.SequenceNode):
        size += sum(expanded_size(one, known, depth + 1) for one in node.value)
    elif isinstance(node, yaml.MappingNode):
        size += sum(expanded_size(one, known, depth + 1) for pair in node.value for one in pair)
    known[id(node)] = size
    return size


def parse_yaml(text: str) -> Any:
    """The values in a YAML text.

    >>> parse_yaml("optim: {lr: 1e-4}")
    {'optim': {'lr': 0.0001}}

    Args:
        text: One document.

    Returns:
        Mappings, lists, texts (dates among them), numbers, or None.

    Raises:
        ValueError: The text is not YAML, or not of a kind that settings are; the message says why.
    """
    if len(text) > MOST_CHARACTERS:
        raise ValueError(f"it has more than {MOST_CHARACTERS:,} characters")
    try:
        return yaml.load(text, Loader=Loader)
    except RecursionError:
        raise ValueError(f"it is nested more than {DEEPEST} deep") from None
    except Exception as error:  # of YAML, or a ValueError of a number with too many digits
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ValueError(reason if len(reason) < 500 else f"{reason[:500]}...") from None


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

    The arguments of a part are dropped when another part replaces it, except for those that every
    part has, such as the batch size. A key that is ``dropped_with`` another one is dropped when
    that changes. Keys of a transform on top of the name of a preset change this preset.
    """
    declared = declared_keys(RunConfig)
    result = dict(base)
    for key, value in over.items():
        below = result.get(key)
        if key == "transform" and isinstance(value, dict) and isinstance(below, str):
            below = {"preset": below}
        if isinstance(value, dict) and isinstance(below, dict):
            if key in declared and declared[key].section is PartConfig:
                if _changes(below, value, "name"):
                    shared = declared[key].key.arguments
                    below = {name: kept for name, kept in below.items() if name in shared}
            else:
                dropped = {
                    name
                    for name in below
                    if (one := declared.get(f"{key}.{name}")) and one.key.dropped_with
                    if _changes(below, value, one.key.dropped_with)
                }
                below = {name: kept for name, kept in below.items() if name not in dropped}
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
        return f"there is no key '{place}'; {did_you_mean(place, declared_keys(model))}"
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
