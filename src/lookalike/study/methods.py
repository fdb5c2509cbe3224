"""From a study file to runs: each method on each data set, resolved and checked."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lookalike.config import RunConfig, parse
from lookalike.config.loading import merge, set_keys
from lookalike.errors import BadInput
from lookalike.study.config import MethodConfig, StudyConfig, StudyData
from lookalike.study.tuning import SearchSpace, grid_values
from lookalike.training.runner import check

STUDY_KEYS = ("data", "protocol", "seed")
"""Keys of a run that the study sets."""


@dataclass(frozen=True)
class DatasetFacts:
    """What identifies a data set and the initial weights, and how many classes train."""

    data_fingerprint: str
    weights_fingerprint: str
    train_classes: int
    """Of the fold that has fewest."""


@dataclass(frozen=True)
class Method:
    """One method on one data set, before any hyper-parameter is chosen."""

    dataset: str
    name: str
    config: RunConfig
    search: SearchSpace
    identity: str
    """A hash of everything that determines a trial, but not of the number of trials."""

    def with_parameters(self, parameters: Mapping[str, Any]) -> RunConfig:
        """The configuration with hyper-parameters by dotted key filled in."""
        return parse(set_keys(self.config.model_dump(mode="json"), parameters), "a trial")


def base_config(study: StudyConfig, data: StudyData) -> RunConfig:
    """The configuration that all runs on a data set share."""
    for key in STUDY_KEYS:
        if key in study.base:
            raise BadInput(f"base.{key} is set by the study: write '{key}' outside of base")
    own = {
        "seed": study.seed,
        "data": data.model_dump(mode="json", exclude={"label"}),
        "protocol": study.protocol.model_dump(mode="json") | {"seed": study.seed},
        "train": {"metric": study.metric},
    }
    return parse(merge(study.base, own), "base")


def resolve(study: StudyConfig, data: StudyData, facts: DatasetFacts) -> tuple[Method, ...]:
    """The methods of a study on one data set, each checked before anything is run."""
    found = [_resolve_one(study, data, method.resolved(), facts) for method in study.methods]
    names = [method.name for method in found]
    for name in names:
        if names.count(name) > 1:
            raise BadInput(f"two methods are called '{name}'; give one of them another name")
    return tuple(found)


def hash_of(*parts: Any) -> str:
    """A short hash of JSON values."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]


def _resolve_one(
    study: StudyConfig, data: StudyData, method: MethodConfig, facts: DatasetFacts
) -> Method:
    """One method: its parts on top of the study's base."""
    values = base_config(study, data).model_dump(mode="json")
    parts = method.model_dump(mode="json", include={"loss", "miner", "mix", "memory", "sampler"})
    sampler = fit_sampler(parts.pop("sampler") or {}, values["sampler"], facts.train_classes)
    values |= {name: part for name, part in parts.items() if part}  # without the base's arguments
    values = set_keys(merge(values, {"sampler": sampler}), method.set)
    config = parse(values, f"the method '{method.name}'")
    try:
        check(config)
        check_search(config, method.search, study)
    except BadInput as error:
        raise BadInput(f"the method '{method.name}': {error}") from None
    identity = hash_of(
        config.identity(),
        method.model_dump(mode="json", include={"search"}),
        study.tuner.model_dump(mode="json", exclude={"trials"}),
        study.seed,
        data.display_name,
        method.name,
        facts.data_fingerprint,
        facts.weights_fingerprint,
    )
    return Method(data.display_name, method.name, config, method.search, identity)


def fit_sampler(
    sampler: Mapping[str, Any], base: Mapping[str, Any], classes: int
) -> dict[str, Any]:
    """A method's sampler arguments, as far as the base's sampler and the classes allow.

    ``per_class: 1`` needs as many classes as images in a batch; where there are fewer classes, it
    becomes the smallest number that they allow.
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
        section = key.split(".")[0]
        if section in STUDY_KEYS:
            raise BadInput(f"search.{key}: the study sets '{section}' by itself")
        for value in searched.ends:
            check(parse(set_keys(config.model_dump(mode="json"), {key: value}), "a trial"))
        if study.tuner.name == "grid" and grid_values(searched) is None:
            raise BadInput(f"search.{key} needs a step or choices to be searched by a grid")
