"""From a study file to what is run: each method on each data set, resolved and checked."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lookalike.config import RunConfig, parse
from lookalike.config.overrides import merge
from lookalike.errors import BadInput
from lookalike.study.config import MethodConfig, StudyConfig, StudyData
from lookalike.study.ranges import Choices, Range, SearchSpace, grid_values
from lookalike.study.spaces import space
from lookalike.training.runner import check

__all__ = ["Ground", "Method", "base_config", "identity_of", "resolve", "with_parameters"]

OWN = ("data", "protocol", "seed")
"""Keys of a run that the study sets by itself."""


@dataclass(frozen=True)
class Method:
    """One method on one data set, before any hyper-parameter is chosen."""

    dataset: str
    name: str
    config: RunConfig
    search: SearchSpace
    identity: str
    """Names all its work: everything that decides a trial, but not how many there are."""

    def with_parameters(self, parameters: Mapping[str, Any]) -> RunConfig:
        """The configuration with hyper-parameters filled in."""
        return with_parameters(self.config, parameters)


def with_parameters(config: RunConfig, parameters: Mapping[str, Any]) -> RunConfig:
    """``config`` with values by dotted key on top."""
    return parse(on_top(config.model_dump(mode="json"), parameters), "a trial")


def on_top(values: dict[str, Any], parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Nested ``values`` with values by dotted key on top."""
    for key, value in parameters.items():
        for part in reversed(key.split(".")):
            value = {part: value}
        values = merge(values, value)
    return values


def base_config(study: StudyConfig, data: StudyData) -> RunConfig:
    """What every run on a data set has in common."""
    for key in OWN:
        if key in study.base:
            raise BadInput(f"base.{key} is the study's own: write '{key}' outside of base")
    own = {
        "seed": study.seed,
        "data": data.model_dump(mode="json", exclude={"label"}),
        "protocol": study.protocol.model_dump(mode="json") | {"seed": study.seed},
        "train": {"metric": study.metric},
    }
    return parse(merge(study.base, own), "base")


@dataclass(frozen=True)
class Ground:
    """What is known of a data set and a network before anything is run."""

    data_fingerprint: str
    weights_fingerprint: str
    train_classes: int
    """Of the fold that has fewest."""


def resolve(study: StudyConfig, data: StudyData, ground: Ground) -> tuple[Method, ...]:
    """The methods of a study on one data set, each checked before anything is run."""
    found = [one(study, data, method, ground) for method in study.methods]
    names = [method.name for method in found]
    for name in names:
        if names.count(name) > 1:
            raise BadInput(f"two methods are called '{name}'; give one of them another name")
    return tuple(found)


def identity_of(*deciding: Any) -> str:
    """A short hash of everything that decides."""
    return hashlib.sha256(json.dumps(deciding, sort_keys=True).encode()).hexdigest()[:16]


def one(study: StudyConfig, data: StudyData, method: MethodConfig, ground: Ground) -> Method:
    """One method with the shipped space that it names below it."""
    whole = from_space(method)
    name = whole.name
    config = base_config(study, data)
    parts = whole.model_dump(mode="json", include={"loss", "miner", "mix", "memory", "sampler"})
    values = config.model_dump(mode="json") | {"miner": None, "mix": None, "memory": None}
    for part in ("miner", "mix", "memory"):
        values[part] = parts[part] or config.model_dump(mode="json")[part]
    if parts["loss"]:
        values["loss"] = parts["loss"]  # not merged: the base's loss has arguments of its own
    sampler = fitting(parts["sampler"] or {}, values["sampler"], ground.train_classes)
    values = merge(values, {"sampler": sampler})
    values = on_top(values, whole.set)
    config = parse(values, f"the method '{name}'")
    try:
        check(config)
        check_search(config, whole.search, study)
    except BadInput as error:
        raise BadInput(f"the method '{name}': {error}") from None
    identity = identity_of(
        config.identity(),
        whole.model_dump(mode="json", include={"search"}),
        study.tuner.model_dump(mode="json", exclude={"trials"}),
        study.seed,
        data.called,
        name,
        ground.data_fingerprint,
        ground.weights_fingerprint,
    )
    return Method(data.called, name, config, whole.search, identity)


def from_space(method: MethodConfig) -> MethodConfig:
    """A method with its shipped space filled in, and a name that can be a file's."""
    below = space(method.space) if method.space else {}
    given = method.model_dump(mode="json", exclude_unset=True, exclude={"space"})
    values = merge(below, given)
    values.setdefault("name", "")
    values["name"] = values["name"] or method.space or (method.loss.name if method.loss else "")
    if not values["name"]:
        raise BadInput("a method needs a space, a loss or a name")
    values["name"] = values["name"].replace("/", "-").rpartition(":")[2]
    return MethodConfig.model_validate(values)


def fitting(sampler: Mapping[str, Any], base: Mapping[str, Any], classes: int) -> dict[str, Any]:
    """What a method says of the sampler, as far as the base's sampler and the classes allow.

    ``per_class: 1`` wants as many classes as there are images in a batch; where there are fewer,
    it is the least number that they allow.
    """
    if "name" in sampler or "per_class" not in sampler:
        return dict(sampler)
    if "per_class" not in base:
        return {key: value for key, value in sampler.items() if key != "per_class"}
    batch, wanted = int(base["batch_size"]), int(sampler["per_class"])
    possible = (n for n in range(wanted, batch + 1) if batch % n == 0 and batch // n <= classes)
    return dict(sampler) | {"per_class": next(possible, wanted)}


def check_search(config: RunConfig, search: SearchSpace, study: StudyConfig) -> None:
    """Refuse a searched key that a run does not have, by trying both ends of every range."""
    for key, searched in search.items():
        if key.split(".")[0] in OWN:
            raise BadInput(f"search.{key}: the study sets '{key.split('.')[0]}' by itself")
        for value in ends(searched):
            check(with_parameters(config, {key: value}))
        if study.tuner.name == "grid" and grid_values(searched) is None:
            raise BadInput(f"search.{key} needs a step or choices to be searched by a grid")


def ends(searched: Range | Choices) -> list[Any]:
    """The values that a search may reach, or the least and the greatest of them."""
    if isinstance(searched, Choices):
        return list(searched.choices)
    numbers = [searched.low, searched.high]
    return [int(number) for number in numbers] if searched.whole else numbers
