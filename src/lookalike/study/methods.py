"""From a study file to rows: each method on each data set at each value of axes, checked."""

import hashlib
import itertools
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from lookalike import models
from lookalike.config import RunConfig, parse
from lookalike.config.keys import declared_keys, selected
from lookalike.config.loading import merge, set_keys
from lookalike.errors import BadInput
from lookalike.study.config import MethodConfig, RowConfig, StudyConfig, StudyData
from lookalike.study.results import label_of
from lookalike.study.tuning import Choices, SearchSpace, TunerConfig, grid_values
from lookalike.training.runner import check

STUDY_KEYS = tuple(name for name in RunConfig.model_fields if name in StudyConfig.model_fields)
"""Keys of a run that the study sets."""
NOT_AXES = tuple(name for name, one in declared_keys(RunConfig).items() if one.key.of_study)
"""Keys that a study sets for every run, whatever varies."""
NO_AXES: Mapping[str, str] = {}
SHRINKS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
"""Shrinkages of LDA's within-class covariance; the best on validation classes is tested."""


@dataclass(frozen=True)
class DatasetFacts:
    """What identifies a data set and the initial weights, and how many classes train."""

    data_fingerprint: str
    weights_fingerprint: str
    train_classes: int
    """Of the fold that has fewest."""


@dataclass(frozen=True)
class Method:
    """One row: a method on one data set, or a baseline, before any hyper-parameter is chosen."""

    dataset: str
    name: str
    config: RunConfig
    search: SearchSpace
    tuner: TunerConfig
    identity: str
    """A hash of everything that determines a trial, but not of the number of trials."""
    axes: Mapping[str, str] = field(default_factory=dict)
    group: str = ""
    """The key of its facts and baselines; empty: the data set."""
    baseline: bool = False
    dim: int = 0
    """The size of the embedding, of a baseline."""

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
class StudyRow:
    """What a study file says about one row, before the data are loaded."""

    dataset: str
    method: str
    axes: Mapping[str, str]
    search: SearchSpace
    shared: RunConfig
    """What determines the facts and baselines: data, protocol, network."""
    config: Callable[[int], RunConfig]
    """The configuration, where so many classes train."""

    def resolve(self, study: StudyConfig, facts: DatasetFacts) -> Method:
        """The row, if it can be trained and searched."""
        config = self.config(facts.train_classes)
        try:
            check(config)
            check_search(config, self.search, study)
            if study.metric not in config.protocol.metrics:
                raise BadInput(f"metric = '{study.metric}' is not among protocol.metrics")
        except BadInput as error:
            name = label_of(self.method, self.axes)
            raise BadInput(f"the method '{name}': {error}") from None
        searched = {key: one.model_dump(mode="json") for key, one in self.search.items()}
        identity = hash_of(
            config.identity(),
            {"search": searched},
            study.tuner.model_dump(mode="json", exclude={"trials"}),
            study.seed,
            self.dataset,
            self.method,
            facts.data_fingerprint,
            facts.weights_fingerprint,
        )
        return Method(
            self.dataset, self.method, config, self.search, study.tuner, identity, self.axes
        )


def rows_of(study: StudyConfig) -> Iterator[StudyRow]:
    """The rows of a study one by one, or all combinations of data sets, axes and methods."""
    for row in study.rows:
        config = row_config(study, row)
        yield StudyRow(
            row.dataset or config.data.name,
            row.method,
            row.axes,
            row.search,
            shared_config(config),
            lambda _, config=config: config,  # type: ignore[misc]
        )
    if study.rows:
        return
    methods = [method.resolved() for method in study.methods]
    for data, values in itertools.product(study.data, itertools.product(*study.axes.values())):
        axes = dict(zip(study.axes, values, strict=True))
        base = base_config(study, data, axes)
        dataset, shared = dataset_name(study, data, axes), shared_config(base)
        for method in methods:
            configure = partial(_method_config, study, base, method, axes)
            yield StudyRow(dataset, method.name, axes, method.search, shared, configure)


def baselines_of(dataset: str, group: str, shared: RunConfig, facts: DatasetFacts) -> list[Method]:
    """Rows without training: the features of the network, raw, or reduced by PCA or LDA.

    A method that does not beat shrunk LDA of the same size has learned nothing new. Without
    validation classes, which choose its shrinkage, there is no LDA.
    """
    width = models.feature_width(shared.model.network)
    dim = min(shared.model.dim, width)
    heads: dict[str, dict[str, Any]] = {"raw-features": {"dim": 0, "head_init": "random"}}
    if dim:
        heads["pca"] = {"dim": dim, "head_init": "pca"}
    if dim and shared.protocol.name != "paper":
        heads["lda"] = {"dim": dim, "head_init": "lda"}
    found = []
    for name, head in heads.items():
        changes = {
            "model": head | {"normalize": True},
            "sampler": {"name": "random", "batch_size": 2},
            "train": {"epochs": 0},
        }
        config = parse(merge(shared.model_dump(mode="json"), changes), f"the baseline '{name}'")
        search: SearchSpace = (
            {"model.head_shrink": Choices(choices=SHRINKS)} if name == "lda" else {}
        )
        identity = hash_of(config.identity(), dataset, facts.data_fingerprint, name)
        size = head["dim"] or width
        tuner = TunerConfig(name="grid", prune=False)
        found.append(Method(dataset, name, config, search, tuner, identity, {}, group, True, size))
    return found


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


def hash_of(*parts: Any) -> str:
    """A short hash of JSON values."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]


def _method_config(
    study: StudyConfig,
    base: RunConfig,
    method: MethodConfig,
    axes: Mapping[str, str],
    train_classes: int,
) -> RunConfig:
    """One method: its parts on top of the study's base, and the values of axes on top of both."""
    values = base.model_dump(mode="json")
    parts = method.model_dump(mode="json", include={"loss", "miner", "mix", "memory", "sampler"})
    sampler = fit_sampler(parts.pop("sampler") or {}, values["sampler"], train_classes)
    values |= {name: part for name, part in parts.items() if part}  # without the base's arguments
    values = set_keys(merge(values, {"sampler": sampler}), method.set)
    return parse(set_keys(values, axis_settings(study, axes)), f"the method '{method.name}'")


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
