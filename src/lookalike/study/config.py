"""The one typed description of a study, read from YAML.

``load_study("study.yaml", ["data.name=cub", "tuner.trials=5"])`` gives a :class:`StudyConfig`;
an unknown key or a wrong value is refused in one sentence.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import ConfigDict, Field, ValidationError, field_validator

from lookalike.config import (
    DataConfig,
    MemoryConfig,
    MixConfig,
    PartConfig,
    ProtocolConfig,
    Section,
    explain,
    read_yaml,
    recipes,
)
from lookalike.config.loading import merge, override
from lookalike.errors import BadInput, did_you_mean
from lookalike.study.ranges import SearchSpace

__all__ = [
    "MethodConfig",
    "StudyConfig",
    "StudyData",
    "TunerConfig",
    "find_study",
    "load_study",
    "parse_study",
]


class StudyData(DataConfig):
    """One data set of a study."""

    label: str | None = Field(None, description="its name in tables and folders; name if not given")

    @property
    def called(self) -> str:
        """What tables and folders call it."""
        return self.label or self.name


class MethodConfig(Section):
    """One method: parts that replace those of the base, and what of them is searched.

    ``space`` takes parts and ranges from those shipped (``study/spaces.yaml``); what is
    written beside it goes on top.
    """

    name: str = ""
    space: str | None = None
    loss: PartConfig | None = None
    miner: PartConfig | None = None
    sampler: dict[str, Any] | None = None
    mix: MixConfig | None = None
    memory: MemoryConfig | None = None
    set: dict[str, Any] = Field({}, description="other keys of a run, dotted: {optim.lr: 1e-4}")
    search: SearchSpace = Field({}, description="what is searched: {loss.margin: [0, 1]}")
    source: str = Field("", description="where the ranges come from")


class TunerConfig(Section):
    """How hyper-parameters are searched."""

    name: Literal["tpe", "gp", "random", "grid"] = "tpe"
    trials: int | None = Field(
        None, ge=1, description="of each method; 20 if not given, or the whole grid"
    )
    prune: bool = Field(True, description="give a trial up after a fold if it is hopeless")
    at_once: int = Field(1, ge=1, description="trials of one method that do not see each other")


class StudyProtocol(Section):
    """Which classes train, validate and test, in every run of the study."""

    name: Literal["fixed-validation", "cross-validation"] = "cross-validation"
    ratio: float = Field(0.9, gt=0, lt=1)
    folds: int = Field(4, ge=2)
    order: Literal["sequential", "random"] = "sequential"
    metrics: tuple[str, ...] = ProtocolConfig().metrics


class StudyConfig(Section):
    """Data sets, methods, protocol, tuner, seeds."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    name: str = ""
    results: Path | None = Field(None, description="the folder of results; results/NAME")
    seed: int = Field(0, ge=0, lt=2**31)
    data: tuple[StudyData, ...] = (StudyData(),)
    base: dict[str, Any] = Field({}, description="keys of every run; extends: a recipe")
    methods: tuple[MethodConfig, ...] = Field(min_length=1)
    protocol: StudyProtocol = StudyProtocol()
    tuner: TunerConfig = TunerConfig()
    repeats: int = Field(5, ge=1)
    metric: str = "map@r"
    checkpoints: bool | None = Field(
        None, description="run folders with checkpoints; only where the network itself learns"
    )

    @field_validator("data", mode="before")
    @classmethod
    def one_or_several(cls, value: Any) -> Any:
        """One data block may stand alone."""
        return [value] if isinstance(value, Mapping) else value

    @field_validator("methods", mode="before")
    @classmethod
    def names_or_blocks(cls, value: Any) -> Any:
        """A name alone is a shipped space; one of several names or blocks."""
        entries = value if isinstance(value, list | tuple) else [value]
        return [{"space": entry} if isinstance(entry, str) else entry for entry in entries]

    @field_validator("results", mode="after")
    @classmethod
    def at_home(cls, value: Path | None) -> Path | None:
        """``~`` is the user's folder."""
        return None if value is None else value.expanduser()


def find_study(given: str) -> Path:
    """The file behind a path, or behind ``recipe:studies/NAME``."""
    if not given.startswith(recipes.PREFIX):
        return Path(given)
    shipped = (recipes.folder() / recipes.STUDIES).glob("*.yaml")
    found = {f"{recipes.STUDIES}/{path.stem}": path for path in shipped}
    name = given.removeprefix(recipes.PREFIX)
    if name not in found:
        raise BadInput(f"there is no study '{name}'; {did_you_mean(name, found)}")
    return found[name]


def load_study(given: Path | str, overrides: Iterable[str] = ()) -> StudyConfig:
    """Read a study file, apply ``key=value`` overrides, and check the whole."""
    path = find_study(str(given))
    values = read_yaml(path)
    values.setdefault("name", path.stem)
    base = values.get("base")
    if isinstance(base, dict) and "extends" in base:
        values["base"] = extended(path, base)
    for setting in overrides:
        key = setting.partition("=")[0]
        if key.startswith("data.") and isinstance(values.get("data"), list):
            values["data"] = one_block(values["data"], setting)
        values = override(values, setting)
    return parse_study(values, str(path))


def one_block(blocks: list[Any], setting: str) -> Any:
    """The data block that an override is about, where there is only one."""
    if len(blocks) != 1:
        raise BadInput(f"'{setting}': the study has {len(blocks)} data sets; which one is meant?")
    return blocks[0]


def extended(path: Path, base: dict[str, Any]) -> dict[str, Any]:
    """The base on top of the recipe that it extends; data and protocol are the study's own."""
    rest = {key: value for key, value in base.items() if key != "extends"}
    if not isinstance(base["extends"], str):
        raise BadInput(f"'{path}': base.extends = {base['extends']!r} must be the path of a file")
    recipe = base["extends"].startswith(recipes.PREFIX)
    below = read_yaml(base["extends"] if recipe else path.parent / base["extends"])
    for own in ("data", "protocol", "seed", "runs_dir"):
        below.pop(own, None)
    return merge(below, rest)


def parse_study(values: Mapping[str, Any], origin: str = "the study") -> StudyConfig:
    """Check a nested mapping and turn it into a :class:`StudyConfig`."""
    try:
        return StudyConfig.model_validate(values)
    except ValidationError as error:
        raise BadInput(f"{origin}: {explain(error, StudyConfig)}") from None
