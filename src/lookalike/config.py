"""The one typed description of a run, read from YAML and overridden on the command line.

``load("recipes/glyphs.yaml", ["loss.name=triplet", "optim.lr=1e-4", "seed=3"])`` gives a
:class:`RunConfig`; an unknown key or a wrong value is refused in one sentence.
"""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PositiveInt, ValidationError

from lookalike.errors import BadInput, nearest
from lookalike.recipes import read as read_yaml
from lookalike.settings import merge, override

__all__ = [
    "DataConfig",
    "MemoryConfig",
    "MixConfig",
    "ModelConfig",
    "OptimConfig",
    "PartConfig",
    "ProtocolConfig",
    "RunConfig",
    "TrainConfig",
    "load",
    "merge",
    "override",
    "parse",
    "read_yaml",
]


SHORT = {"devices": "train.devices", "nodes": "train.nodes"}
"""Keys that may be written without their section on the command line."""

LATER = (
    ("model", "frozen_until", None),
    ("optim", "loss_weight_decay", 0.0),
    ("train", "activation_checkpointing", False),
    ("train", "ema", None),
    ("train", "patience_epochs", None),
)
"""Keys that came when there were runs already: at their default they do not rename a run."""

WITHOUT_EFFECT = (
    "runs_dir",
    "data.root",
    "train.checkpoint_seconds",
    "train.devices",  # they share one batch out
    "train.nodes",
    "train.loggers",
    "protocol.test_untrained",
)
"""Keys on which no score depends: they neither name a run nor make a comparison unfair."""

Item = TypeVar("Item")
OneOrMore = Annotated[
    tuple[Item, ...], BeforeValidator(lambda given: (given,) if isinstance(given, str) else given)
]
"""Several values, or one written without brackets."""


class Section(BaseModel):
    """A part of the configuration; nothing unknown gets in, nothing changes afterwards."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class DataConfig(Section):
    """Which images, and how they are prepared."""

    name: str = "glyphs"
    root: Path | None = None
    transform: str = "glyphs"
    skip_unreadable: bool = False


class ModelConfig(Section):
    """Which network, from which weights, to which embedding."""

    network: str = "small-cnn"
    weights: str = "none"
    dim: int = Field(128, ge=0)
    pooling: Literal["avg", "max", "avg+max", "gem"] = "avg"
    layer_norm: bool = False
    normalize: bool = True
    freeze_bn_statistics: bool = False
    freeze_bn_affine: bool = False
    freeze_backbone: bool = False
    frozen: bool = Field(False, description="features are computed once; only the head learns")
    frozen_until: str | None = Field(
        None,
        coerce_numbers_to_str=True,  # modules of a sequence are called by number
        description="what this module gives is computed once; only what lies behind it learns",
    )
    frozen_views: int = Field(4, ge=0, description="augmented views of each image, if frozen")
    head_init: Literal["random", "pca", "lda", "auto"] = Field(
        "random", description="auto: lda, shrunk as is best on halves of the training classes"
    )
    head_shrink: float = Field(1.0, gt=0, description="of the within-class covariance, for lda")


class PartConfig(BaseModel):
    """A part from a registry: its name, and the arguments that it takes."""

    model_config = ConfigDict(extra="allow", frozen=True)

    name: str

    @property
    def arguments(self) -> dict[str, Any]:
        """Everything but the name."""
        return dict(self.__pydantic_extra__ or {})


class MixConfig(Section):
    """Mixed examples as further candidates; see docs/mixing.md."""

    where: Literal["input", "feature", "embed"]
    alpha: float = Field(2, gt=0, description="shares are drawn from Beta(alpha, alpha)")
    weight: float = Field(0.4, ge=0, description="of the mixed loss beside the clean one")
    pairs: Literal["both", "positive-negative", "anchor-negative"] = "both"
    negatives: PositiveInt | Literal["all"] | None = Field(
        None, description="mixed per anchor, the most similar to it; None: 1 for input, else all"
    )
    per_pair: bool = Field(True, description="false: one share for the whole batch")


class MemoryConfig(Section):
    """Embeddings of former batches as further candidates; see docs/memory.md."""

    size: int = Field(8192, ge=1)
    start: int = Field(1000, ge=0, description="batches before the memory is read")


class OptimConfig(Section):
    """How weights move: one rate for the network, one for the head, one for the loss."""

    name: Literal["adamw", "adam", "rmsprop", "sgd"] = "adamw"
    lr: float = Field(1e-3, gt=0)
    head_lr: float | None = Field(None, gt=0, description="of the head; lr where not given")
    loss_lr: float | None = Field(None, gt=0, description="of the loss's learned weights; lr")
    weight_decay: float = Field(1e-4, ge=0, description="of backbone and head")
    loss_weight_decay: float = Field(
        0.0, ge=0, description="of the loss's learned weights, but for those it never decays"
    )
    momentum: float = Field(0.9, ge=0, lt=1)
    schedule: Literal["constant", "step", "cosine", "one-cycle"] = "constant"
    step_size: int = Field(10, ge=1, description="epochs between two steps of the step schedule")
    gamma: float = Field(0.1, gt=0, description="factor of one step of the step schedule")
    warmup_epochs: int = Field(0, ge=0, description="epochs in which the backbone stands still")
    clip_value: float | None = Field(None, gt=0)
    clip_norm: float | None = Field(None, gt=0)


class TrainConfig(Section):
    """How long, on what, and what is watched."""

    epochs: int = Field(10, ge=0)
    batches_per_epoch: int | None = Field(None, ge=1, description="the sampler's own if not given")
    validate_every: int = Field(1, ge=1, description="epochs between validations")
    patience: int | None = Field(
        None, ge=1, description="validations in a row without a gain before the end"
    )
    patience_epochs: int | None = Field(
        None, ge=1, description="ends when the best epoch lies more than so many epochs back"
    )
    metric: str = Field("map@r", description="chooses the epoch, on validation classes")
    precision: Literal["32-true", "bf16-mixed", "16-mixed"] = "32-true"
    device: str = "auto"
    devices: int = Field(1, ge=1, description="processes on this machine, one a device")
    nodes: int = Field(1, ge=1, description="machines")
    accumulate: int = Field(
        1, ge=1, description="chunks that a batch is passed in, to save memory; pairs span them all"
    )
    channels_last: bool = True
    compile: bool = Field(
        False, description="compile the network, or of a frozen one the head with its loss"
    )
    activation_checkpointing: bool = Field(
        False, description="blocks compute again on the way back instead of remembering"
    )
    ema: float | None = Field(
        None, gt=0, lt=1, description="decay of averaged weights, which are validated and tested"
    )
    loggers: OneOrMore[Literal["tensorboard", "csv", "mlflow", "wandb"]] = ("tensorboard",)
    eval_batch_size: int = Field(256, ge=1)
    checkpoint_seconds: float = Field(60, ge=0, description="between checkpoints inside an epoch")


class ProtocolConfig(Section):
    """Which classes train, validate and test (docs/training.md)."""

    name: Literal["paper", "fixed-validation", "cross-validation"] = "fixed-validation"
    ratio: float = Field(0.9, gt=0, lt=1, description="of the training classes that train")
    folds: int = Field(4, ge=2)
    fold: int = Field(0, ge=0)
    order: Literal["sequential", "random"] = "sequential"
    seed: int | None = Field(None, ge=0, description="draws the classes; the run's if not given")
    test: bool = Field(True, description="false: never hand out the test set (tuning trials)")
    test_untrained: bool = Field(
        True, description="test the network as it was before training too, beside the trained one"
    )
    metrics: OneOrMore[str] = ("recall@1", "recall@2", "recall@4", "recall@8", "map@r")


class RunConfig(Section):
    """Everything that decides the outcome of one run."""

    seed: int = Field(0, ge=0, lt=2**32)
    runs_dir: Path = Path("runs")
    data: DataConfig = DataConfig()
    model: ModelConfig = ModelConfig()
    loss: PartConfig = PartConfig(name="multi-similarity")
    miner: PartConfig | None = None
    mix: MixConfig | None = None
    memory: MemoryConfig | None = None
    sampler: PartConfig = PartConfig.model_validate(
        {"name": "spc", "batch_size": 128, "per_class": 4}
    )
    optim: OptimConfig = OptimConfig()
    train: TrainConfig = TrainConfig()
    protocol: ProtocolConfig = ProtocolConfig()

    def deciding(self) -> dict[str, Any]:
        """What the outcome depends on: all but where things lie and how often they are saved."""
        values = self.model_dump(mode="json")
        for part in ("mix", "memory"):  # what is not used does not rename a run
            if values[part] is None:
                del values[part]
        if values["protocol"]["seed"] is None:
            del values["protocol"]["seed"]
        for key in WITHOUT_EFFECT:
            section, _, name = key.rpartition(".")
            del (values[section] if section else values)[name]
        if values["train"]["accumulate"] == 1:
            del values["train"]["accumulate"]
        for section, key, default in LATER:
            if values[section][key] == default:
                del values[section][key]
        if values["model"]["weights"] not in ("none", "imagenet"):
            values["model"]["weights"] = "file"  # its content has a fingerprint of its own
        return values


def load(given: Path | str | None, overrides: Iterable[str] = ()) -> RunConfig:
    """Read a YAML file or ``recipe:NAME`` (or nothing), apply overrides, and check the whole."""
    values = read_yaml(given) if given is not None else {}
    for setting in overrides:
        key = setting.partition("=")[0]
        values = override(values, SHORT.get(key, key) + setting.removeprefix(key))
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
    model = model or RunConfig
    first = error.errors()[0]
    place = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        return f"there is no key '{place}'; {nearest(place, keys(model))}"
    if first["type"] == "missing":
        return f"the key '{place}' is missing"
    if first["type"] == "literal_error":
        choices = re.findall(r"'([^']*)'", str(first["ctx"]["expected"]))
        return f"{place} = {first['input']!r} will not do; {nearest(str(first['input']), choices)}"
    return f"{place} = {first['input']!r} will not do: {first['msg'][0].lower()}{first['msg'][1:]}"


def keys(model: type[BaseModel], prefix: str = "") -> list[str]:
    """Every dotted key that a configuration may have."""
    found = []
    for name, field in model.model_fields.items():
        for kind in (field.annotation, *get_args(field.annotation)):
            if isinstance(kind, type) and issubclass(kind, BaseModel):
                found += keys(kind, f"{prefix}{name}.")
        found.append(f"{prefix}{name}")
    return found
