"""The schema of a study file, and the methods that come with the package (``spaces.yaml``).

``load_study("study.yaml", ["data.name=cub", "tuner.trials=5"])`` returns a :class:`StudyConfig`; an
unknown key or an invalid value is an error of one sentence.
"""

from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BeforeValidator, Field, ValidationError, field_validator

from lookalike.config import recipes, schema
from lookalike.config.loading import explain, merge, override, plain_yaml, shown
from lookalike.config.schema import MemoryConfig, MixConfig, PartConfig, Section
from lookalike.errors import BadInput, did_you_mean
from lookalike.shipped import find_shipped
from lookalike.study.results import label_of
from lookalike.study.tuning import SearchSpace, TunerConfig


class StudyData(schema.DataConfig):
    """One data set of a study."""

    label: str | None = Field(None, description="name in tables and folders; name if not given")

    @property
    def display_name(self) -> str:
        """The name in tables and folders."""
        return self.label or self.name


class MethodConfig(Section):
    """One method: parts that replace those of the base, and the search space.

    ``space`` names a shipped method (``study/spaces.yaml``); the other keys are merged on top.
    """

    name: str = ""
    space: str | None = None
    loss: PartConfig | None = None
    miner: PartConfig | None = None
    sampler: dict[str, Any] | None = None
    mix: MixConfig | None = None
    memory: MemoryConfig | None = None
    set: dict[str, Any] = Field({}, description="other keys of a run, dotted: {optim.lr: 1e-4}")
    search: SearchSpace = Field({}, description="search space: {loss.margin: [0, 1]}")
    source: str = Field("", description="source of the ranges")

    def resolved(self) -> "MethodConfig":
        """The method with its shipped method filled in, and a name that can be a file's."""
        below: dict[str, Any] = {}
        if self.space is not None:
            if self.space not in shipped_methods():
                close = did_you_mean(self.space, shipped_methods())
                raise BadInput(f"there is no search space '{self.space}'; {close}")
            below = shipped_methods()[self.space]
        given = self.model_dump(mode="json", exclude_unset=True, exclude={"space"})
        name = self.name or self.space or (self.loss.name if self.loss else "")
        if not name:
            raise BadInput("a method needs a space, a loss or a name")
        name = name.replace("/", "-").rpartition(":")[2]
        return MethodConfig.model_validate(merge(below, given) | {"name": name})


Axes: TypeAlias = Annotated[
    dict[str, str],
    BeforeValidator(lambda given: {key: str(value) for key, value in dict(given).items()}),
]
"""The value of each axis: ``{"network": "resnet50", "size": "64"}``."""


class RowConfig(Section):
    """One row with its own settings: a method at values of axes, as one run configuration."""

    method: str
    axes: Axes = Field({}, description="what the row varies besides the method: {size: 64}")
    config: dict[str, Any] = Field(description="a whole run configuration; may extend a recipe")
    search: SearchSpace = Field({}, description="search space; without one, settings are fixed")
    dataset: str = Field("", description="name in tables and folders; that of the data set")

    @property
    def label(self) -> str:
        """The method and the values of its axes."""
        return label_of(self.method, self.axes)


def _parse_axis(name: str, given: Any) -> dict[str, Any]:
    """The settings of each value; a list has the values of the key that the axis is called."""
    if isinstance(given, list | tuple):
        return {str(value): {name: value} for value in given}
    if not isinstance(given, Mapping) or not given:
        raise ValueError(f"axes.{name} must map values to settings, or list values of a key")
    return {str(value): settings or {} for value, settings in given.items()}


class StudyProtocol(Section):
    """The classes for training, validation and test, in every run of the study."""

    name: Literal["paper", "fixed-validation", "cross-validation"] = "cross-validation"
    ratio: float = Field(0.9, gt=0, lt=1)
    folds: int = Field(4, ge=2)
    order: Literal["sequential", "random"] = schema.ProtocolConfig().order
    metrics: tuple[str, ...] = schema.ProtocolConfig().metrics


class StudyConfig(Section):
    """Data sets, methods, protocol, tuner, seeds; or rows, each with its own settings."""

    name: str = ""
    results: Path | None = Field(None, description="folder of the results; results/NAME")
    seed: int = Field(0, ge=0, lt=2**31)
    data: tuple[StudyData, ...] = (StudyData(),)
    base: dict[str, Any] = Field({}, description="keys of every run; may extend a recipe")
    methods: tuple[MethodConfig, ...] = ()
    axes: dict[str, dict[str, dict[str, Any]]] = Field(
        {}, description="what varies besides the method: {size: {64: {model.dim: 64}}}"
    )
    rows: tuple[RowConfig, ...] = Field((), description="instead of data, base, methods and axes")
    protocol: StudyProtocol = StudyProtocol()
    tuner: TunerConfig = TunerConfig()
    repeats: int = Field(5, ge=1)
    metric: str = "map@r"
    baselines: bool = Field(True, description="test raw features, PCA and LDA, too")
    checkpoints: bool | None = Field(
        None,
        description="train in run folders with checkpoints; default: if the network is trained",
    )
    keep_runs: bool = Field(True, description="keep the run folders of repeats, if there are any")

    @field_validator("data", mode="before")
    @classmethod
    def one_or_several(cls, value: Any) -> Any:
        """Accept one data block without a list."""
        return [value] if isinstance(value, Mapping) else value

    @field_validator("methods", mode="before")
    @classmethod
    def names_or_blocks(cls, value: Any) -> Any:
        """Accept names of shipped methods, and one method without a list."""
        entries = value if isinstance(value, list | tuple) else [value]
        return [{"space": entry} if isinstance(entry, str) else entry for entry in entries]

    @field_validator("axes", mode="before")
    @classmethod
    def values_and_settings(cls, value: Any) -> Any:
        """Accept a list of values for an axis that is called like a key."""
        if not isinstance(value, Mapping):
            return value
        return {str(name): _parse_axis(str(name), given) for name, given in value.items()}

    @field_validator("results", mode="after")
    @classmethod
    def expand_user(cls, value: Path | None) -> Path | None:
        """Expand ``~``."""
        return None if value is None else value.expanduser()


REPLACED_BY_ROWS = ("data", "base", "methods", "axes", "protocol")
"""Keys that a study with rows does not have."""


@cache
def shipped_methods() -> dict[str, dict[str, Any]]:
    """Every method of ``spaces.yaml`` by name.

    >>> shipped_methods()["triplet"]["search"]
    {'loss.margin': [0, 0.5]}
    """
    return plain_yaml(Path(__file__).with_name("spaces.yaml"))


def is_file_name(name: str) -> bool:
    """Whether a name is that of one file or folder, and leads nowhere else.

    >>> is_file_name("cub, small"), is_file_name("../cub"), is_file_name("")
    (True, False, False)
    """
    return bool(name) and name not in (".", "..") and not set(name) & {"/", "\\", "\0"}


def load_study(given: Path | str, overrides: Iterable[str] = ()) -> StudyConfig:
    """Read a study file or ``recipe:studies/NAME``, apply ``key=value`` overrides, and validate."""
    path = find_shipped(Path(given))
    if str(given).startswith(recipes.PREFIX):
        shipped = (recipes.folder() / recipes.STUDIES).glob("*.yaml")
        found = {f"{recipes.STUDIES}/{path.stem}": path for path in shipped}
        name = str(given).removeprefix(recipes.PREFIX)
        if name not in found:
            raise BadInput(f"there is no study '{name}'; {did_you_mean(name, found)}")
        path = found[name]
    values = recipes.read(path)
    values.setdefault("name", path.stem)
    base = values.get("base")
    if isinstance(base, dict) and "extends" in base:
        values["base"] = _extended(path, base)
    rows = values.get("rows")
    if isinstance(rows, list):
        values["rows"] = [_extended_row(path, row) for row in rows]
    for setting in overrides:
        blocks = values.get("data")
        if setting.startswith("data.") and isinstance(blocks, list):
            if len(blocks) != 1:
                raise BadInput(f"'{setting}' is ambiguous: the study has {len(blocks)} data sets")
            values["data"] = blocks[0]
        values = override(values, setting)
    return parse_study(values, str(path))


def _extended(path: Path, base: dict[str, Any]) -> dict[str, Any]:
    """The base on top of the recipe that it extends, without what the study itself sets."""
    own = ("data", "protocol", "seed", "runs_dir")
    below = {k: v for k, v in _below(path, base["extends"], "base").items() if k not in own}
    return merge(below, {key: value for key, value in base.items() if key != "extends"})


def _extended_row(path: Path, row: Any) -> Any:
    """A row whose configuration is on top of the recipe that it extends."""
    config = row.get("config") if isinstance(row, dict) else None
    if not isinstance(config, dict) or "extends" not in config:
        return row
    below = _below(path, config["extends"], "rows.config")
    own = {key: value for key, value in config.items() if key != "extends"}
    return row | {"config": merge(below, own)}


def _below(path: Path, given: Any, place: str) -> dict[str, Any]:
    if not isinstance(given, str):
        raise BadInput(f"'{path}': {place}.extends = {given!r} must be the path of a file")
    return recipes.read(given if given.startswith(recipes.PREFIX) else path.parent / given)


def parse_study(values: Mapping[str, Any], origin: str = "the study") -> StudyConfig:
    """Validate a nested mapping."""
    try:
        study = StudyConfig.model_validate(values)
    except ValidationError as error:
        raise BadInput(f"{origin}: {explain(error, StudyConfig)}") from None
    if not study.methods and not study.rows:
        raise BadInput(f"{origin}: a study needs methods (or rows)")
    if study.name and not all(map(is_file_name, study.name.split("/"))):
        raise BadInput(f"{origin}: name = {shown(study.name)} cannot be the name of a folder")
    given = [name for name in REPLACED_BY_ROWS if name in study.model_fields_set]
    if study.rows and given:
        raise BadInput(f"{origin}: rows have their own settings, so '{given[0]}' has no effect")
    return study
