"""From a study file to runs: each method on each data set at each value of axes, checked."""

import hashlib
import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lookalike.config import RunConfig, parse
from lookalike.config.keys import declared_keys, selected
from lookalike.config.loading import merge, set_keys
from lookalike.errors import BadInput
from lookalike.study.config import MethodConfig, RowConfig, StudyConfig, StudyData
from lookalike.study.results import label_of
from lookalike.study.tuning import SearchSpace, grid_values
from lookalike.training.runner import check

STUDY_KEYS = tuple(name for name in RunConfig.model_fields if name in StudyConfig.model_fields)
"""Keys of a run that the study sets."""
NOT_AXES = tuple(name for name, one in declared_keys(RunConfig).items() if one.key.of_study)
"""Keys that a study sets for every run, whatever varies."""
NO_AXES: Mapping[str, str] = {}


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
    axes: Mapping[str, str] = field(default_factory=dict)
    group: str = ""
    """The key of its facts and baselines; empty: the data set."""

    @property
    def label(self) -> str:
        """The method and the values of its axes."""
        return label_of(self.name, self.axes)

    @property
    def folds(self) -> int:
        """How many models are trained for one setting and seed."""
        protocol = self.config.protocol
        return protocol.folds if protocol.name == "cross-validation" else 1

    def with_parameters(self, parameters: Mapping[str, Any]) -> RunConfig:
        """The configuration with hyper-parameters by dotted key filled in."""
        return parse(set_keys(self.config.model_dump(mode="json"), parameters), "a trial")


@dataclass(frozen=True)
class RowGroup:
    """Rows that share a data set and the values of axes, before the data are loaded."""

    dataset: str
    axes: Mapping[str, str]
    shared: RunConfig
    """What determines the facts and baselines: data, protocol, network."""
    resolve: Callable[[DatasetFacts], Sequence[Method]]


def cells(study: StudyConfig) -> list[RowGroup]:
    """All combinations of data sets and axes, or the rows of a study one by one."""
    if study.rows:
        return [_row_cell(study, row) for row in study.rows]
    return [
        _cell(study, data, dict(zip(study.axes, values, strict=True)))
        for data in study.data
        for values in itertools.product(*study.axes.values())
    ]


def _cell(study: StudyConfig, data: StudyData, axes: Mapping[str, str]) -> RowGroup:
    base = base_config(study, data, axes)
    return RowGroup(
        dataset_name(study, data, axes),
        axes,
        shared_config(base) if study.axes else base,
        lambda facts: resolve(study, data, facts, axes),
    )


def _row_cell(study: StudyConfig, row: RowConfig) -> RowGroup:
    config = row_config(study, row)
    dataset = row.dataset or config.data.name
    return RowGroup(
        dataset,
        row.axes,
        shared_config(config),
        lambda facts: (_checked(study, dataset, row.method, row.axes, config, row.search, facts),),
    )


def axis_settings(study: StudyConfig, axes: Mapping[str, str]) -> dict[str, Any]:
    """The settings by dotted key that the values of axes stand for."""
    found: dict[str, Any] = {}
    for axis, value in axes.items():
        found |= study.axes[axis][value]
    for key in found:
        if key in NOT_AXES:
            raise BadInput(f"axes: the study sets '{key}' by itself")
    return found


def dataset_name(study: StudyConfig, data: StudyData, axes: Mapping[str, str] = NO_AXES) -> str:
    """The name of the data set in tables and folders."""
    values = set_keys(
        {"data": data.model_dump(mode="json")},
        {k: v for k, v in axis_settings(study, axes).items() if k.split(".")[0] == "data"},
    )
    name = str(values["data"]["name"])
    return data.display_name if name == data.name else name


def base_config(
    study: StudyConfig, data: StudyData, axes: Mapping[str, str] = NO_AXES
) -> RunConfig:
    """The configuration that all runs on a data set share, at values of axes."""
    for key in STUDY_KEYS:
        if key in study.base:
            raise BadInput(f"base.{key} is set by the study: write '{key}' outside of base")
    own = {
        "seed": study.seed,
        "data": data.model_dump(mode="json", exclude={"label"}),
        "protocol": study.protocol.model_dump(mode="json") | {"seed": study.seed},
        "train": {"metric": study.metric},
    }
    origin = f"base at {label_of('', axes).lstrip(', ')}" if axes else "base"
    return parse(set_keys(merge(study.base, own), axis_settings(study, axes)), origin)


def row_config(study: StudyConfig, row: RowConfig) -> RunConfig:
    """The configuration of a row; all its runs draw the same classes."""
    config = parse(row.config, f"the row '{row.label}'")
    seed = study.seed if config.protocol.seed is None else config.protocol.seed
    protocol = config.protocol.model_copy(update={"seed": seed, "fold": 0, "test": True})
    return config.model_copy(update={"seed": study.seed, "protocol": protocol})


def shared_config(config: RunConfig) -> RunConfig:
    """What the facts and baselines of a row depend on, and nothing else of its configuration."""
    return parse(selected(config, lambda key: bool(key.baselines)), "a row")


def resolve(
    study: StudyConfig, data: StudyData, facts: DatasetFacts, axes: Mapping[str, str] = NO_AXES
) -> tuple[Method, ...]:
    """The methods of a study on one data set, each checked before anything is run."""
    return tuple(
        _resolve_one(study, data, method.resolved(), facts, axes) for method in study.methods
    )


def hash_of(*parts: Any) -> str:
    """A short hash of JSON values."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]


def _resolve_one(
    study: StudyConfig,
    data: StudyData,
    method: MethodConfig,
    facts: DatasetFacts,
    axes: Mapping[str, str],
) -> Method:
    """One method: its parts on top of the study's base, and the values of axes on top of both."""
    values = base_config(study, data, axes).model_dump(mode="json")
    parts = method.model_dump(mode="json", include={"loss", "miner", "mix", "memory", "sampler"})
    sampler = fit_sampler(parts.pop("sampler") or {}, values["sampler"], facts.train_classes)
    values |= {name: part for name, part in parts.items() if part}  # without the base's arguments
    values = set_keys(merge(values, {"sampler": sampler}), method.set)
    values = set_keys(values, axis_settings(study, axes))
    config = parse(values, f"the method '{method.name}'")
    name = dataset_name(study, data, axes)
    return _checked(study, name, method.name, axes, config, method.search, facts)


def _checked(
    study: StudyConfig,
    dataset: str,
    name: str,
    axes: Mapping[str, str],
    config: RunConfig,
    search: SearchSpace,
    facts: DatasetFacts,
) -> Method:
    """The method, if it can be trained and searched."""
    try:
        check(config)
        check_search(config, search, study)
        if study.metric not in config.protocol.metrics:
            raise BadInput(f"metric = '{study.metric}' is not among protocol.metrics")
    except BadInput as error:
        raise BadInput(f"the method '{label_of(name, axes)}': {error}") from None
    identity = hash_of(
        config.identity(),
        {"search": {key: searched.model_dump(mode="json") for key, searched in search.items()}},
        study.tuner.model_dump(mode="json", exclude={"trials"}),
        study.seed,
        dataset,
        name,
        facts.data_fingerprint,
        facts.weights_fingerprint,
    )
    return Method(dataset, name, config, search, identity, axes)


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
    if search and config.protocol.name == "paper":
        raise BadInput("a search needs validation classes, and protocol.name=paper has none")
    for key, searched in search.items():
        section = key.split(".")[0]
        if section in STUDY_KEYS:
            raise BadInput(f"search.{key}: the study sets '{section}' by itself")
        for value in searched.ends:
            check(parse(set_keys(config.model_dump(mode="json"), {key: value}), "a trial"))
        if study.tuner.name == "grid" and grid_values(searched) is None:
            raise BadInput(f"search.{key} needs a step or choices to be searched by a grid")
