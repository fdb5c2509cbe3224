"""A configuration from a file, ``key=value`` overrides or a mapping, checked.

``load("recipes/glyphs.yaml", ["loss.name=triplet", "optim.lr=1e-4", "seed=3"])`` gives a
:class:`RunConfig`; an unknown key or a wrong value is refused in one sentence.
"""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from lookalike.config.keys import declared_keys, key_names
from lookalike.config.overrides import merge, override
from lookalike.config.recipes import read as read_yaml
from lookalike.config.schema import RunConfig
from lookalike.errors import BadInput, did_you_mean

__all__ = ["explain", "load", "parse"]


def load(given: Path | str | None, overrides: Iterable[str] = ()) -> RunConfig:
    """Read a YAML file or ``recipe:NAME`` (or nothing), apply overrides, and check the whole."""
    values = read_yaml(given) if given is not None else {}
    short = {
        name.rpartition(".")[2]: name
        for name, one in declared_keys(RunConfig).items()
        if one.key.short
    }
    for setting in overrides:
        key = setting.partition("=")[0]
        values = override(values, short.get(key, key) + setting.removeprefix(key))
    return parse(values, origin=str(given) if given is not None else "the command line")


def parse(values: Mapping[str, Any], origin: str = "the configuration") -> RunConfig:
    """Check a nested mapping and turn it into a :class:`RunConfig`."""
    defaults = RunConfig().model_dump(include={"loss", "sampler"})
    try:
        return RunConfig.model_validate(merge(defaults, values))
    except ValidationError as error:
        raise BadInput(f"{origin}: {explain(error)}") from None


def explain(error: ValidationError, model: type[BaseModel] | None = None) -> str:
    """One sentence from pydantic's list of complaints: the first one, with the nearest key."""
    first = error.errors()[0]
    place = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        return f"there is no key '{place}'; {did_you_mean(place, key_names(model or RunConfig))}"
    if first["type"] == "missing":
        return f"the key '{place}' is missing"
    if first["type"] == "literal_error":
        choices = re.findall(r"'([^']*)'", str(first["ctx"]["expected"]))
        return (
            f"{place} = {first['input']!r} is invalid; {did_you_mean(str(first['input']), choices)}"
        )
    return f"{place} = {first['input']!r} is invalid: {first['msg'][0].lower()}{first['msg'][1:]}"
