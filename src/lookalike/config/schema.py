"""The schema of a run's configuration.

Each field declares its type, default, description and, in a :class:`~lookalike.config.keys.Key`,
whether it changes the outcome, whether it makes a comparison unfair and when it has an effect.
There is no other list of keys.
"""

from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PositiveInt

from lookalike.config.keys import Key, identity, unless, when

__all__ = [
    "DataConfig",
    "MemoryConfig",
    "MixConfig",
    "ModelConfig",
    "OptimConfig",
    "PartConfig",
    "ProtocolConfig",
    "RunConfig",
    "Section",
    "TrainConfig",
]

Item = TypeVar("Item")
OneOrMore = Annotated[
    tuple[Item, ...], BeforeValidator(lambda given: (given,) if isinstance(given, str) else given)
]
"""Several values, or one written without brackets."""

VALIDATED = (unless("protocol.name", "paper"),)
CROSS_VALIDATED = (when("protocol.name", "cross-validation"),)
STEPPED = (when("optim.schedule", "step"),)
NOT_FROZEN = (when("model.frozen", False),)


def weights_kind(weights: str) -> str:
    """Weights in the hash of a run; the content of a file has its own fingerprint."""
    return weights if weights in ("none", "imagenet") else "file"


class Section(BaseModel):
    """A part of the configuration; unknown keys are errors, and values are immutable."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class DataConfig(Section):
    """The images and their transform."""

    name: Annotated[str, Key("0.1", "always", condition="data")] = Field(
        "glyphs", description="data set; `lookalike list datasets` shows them"
    )
    root: Annotated[Path | None, Key("0.1", "never", compared=False)] = Field(
        None, description="folder or file of the data set"
    )
    transform: Annotated[str, Key("0.1", "always", condition="transform")] = Field(
        "glyphs", description="crop and augmentation preset (docs/data.md)"
    )
    skip_unreadable: Annotated[bool, Key("0.1", "always")] = Field(
        False, description="leave out images that cannot be decoded instead of stopping"
    )


class ModelConfig(Section):
    """The network, its initial weights and the embedding."""

    network: Annotated[str, Key("0.1", "always", condition="network")] = Field(
        "small-cnn", description="backbone; `lookalike list networks` shows them"
    )
    weights: Annotated[str, Key("0.1", "always", condition="weights", hashed_as=weights_kind)] = (
        Field("none", description="none, imagenet, or the path of a file of weights")
    )
    dim: Annotated[int, Key("0.1", "always", condition="dim")] = Field(
        128, ge=0, description="size of the embedding; 0: the pooled features, without a head"
    )
    pooling: Annotated[
        Literal["avg", "max", "avg+max", "gem"], Key("0.1", "always", condition="pooling")
    ] = Field("avg", description="how a feature map becomes one vector")
    layer_norm: Annotated[bool, Key("0.1", "always")] = Field(
        False, description="layer normalization between pooling and head"
    )
    # What the loss is given; tests compare directions, whatever the lengths.
    normalize: Annotated[bool, Key("0.1", "always", compared=False)] = Field(
        True, description="embeddings have length 1"
    )
    freeze_bn_statistics: Annotated[
        bool, Key("0.1", "always", condition="bn_frozen", active_when=NOT_FROZEN)
    ] = Field(False, description="batch norm keeps its running statistics")
    freeze_bn_affine: Annotated[
        bool, Key("0.1", "always", condition="bn_frozen", active_when=NOT_FROZEN)
    ] = Field(False, description="scale and shift of batch norm are not trained")
    freeze_backbone: Annotated[bool, Key("0.1", "always", active_when=NOT_FROZEN)] = Field(
        False, description="only the head is trained; images are passed every time"
    )
    frozen: Annotated[bool, Key("0.1", "always")] = Field(
        False, description="features are computed once; only the head is trained"
    )
    frozen_until: Annotated[str | None, Key("0.1")] = Field(
        None,
        coerce_numbers_to_str=True,  # modules of a sequence are called by number
        description="the output of this module is computed once; only what follows it is trained",
    )
    frozen_views: Annotated[
        int,
        Key(
            "0.1",
            "always",
            active_when=(when("model.frozen", True), unless("model.frozen_until", None)),
        ),
    ] = Field(4, ge=0, description="augmented views of each image")
    head_init: Annotated[Literal["random", "pca", "lda", "auto"], Key("0.1", "always")] = Field(
        "random",
        description="how the head's weights start; auto: lda, its shrinkage chosen on halves of "
        "the training classes",
    )
    head_shrink: Annotated[
        float, Key("0.1", "always", active_when=(when("model.head_init", "lda"),))
    ] = Field(1.0, gt=0, description="shrinkage of the within-class covariance")


class PartConfig(BaseModel):
    """A part from a registry: its name and arguments."""

    model_config = ConfigDict(extra="allow", frozen=True)

    name: Annotated[str, Key("0.1", "always")] = Field(
        description="a registered name or package.module:Class; its arguments are further keys"
    )

    @property
    def arguments(self) -> dict[str, Any]:
        """Everything but the name."""
        return dict(self.__pydantic_extra__ or {})


class MixConfig(Section):
    """Mixed examples as additional candidates; see docs/mixing.md."""

    where: Annotated[Literal["input", "feature", "embed"], Key("0.1", "always")] = Field(
        description="what is mixed: images, feature maps or embeddings"
    )
    alpha: Annotated[float, Key("0.1", "always")] = Field(
        2, gt=0, description="shares are drawn from Beta(alpha, alpha)"
    )
    weight: Annotated[float, Key("0.1", "always")] = Field(
        0.4, ge=0, description="weight of the mixed loss relative to the clean one"
    )
    pairs: Annotated[
        Literal["both", "positive-negative", "anchor-negative"], Key("0.1", "always")
    ] = Field("both", description="which pairs are mixed")
    negatives: Annotated[PositiveInt | Literal["all"] | None, Key("0.1", "always")] = Field(
        None,
        description="most similar negatives mixed per anchor; None: 1 for input, else all",
    )
    per_pair: Annotated[bool, Key("0.1", "always")] = Field(
        True, description="false: one share for the whole batch"
    )


class MemoryConfig(Section):
    """Embeddings of previous batches as additional candidates; see docs/memory.md."""

    size: Annotated[int, Key("0.1", "always")] = Field(
        8192, ge=1, description="embeddings that are kept"
    )
    start: Annotated[int, Key("0.1", "always")] = Field(
        1000, ge=0, description="batches before the memory is read"
    )


class OptimConfig(Section):
    """The optimizer, with learning rates for the network, the head and the loss."""

    name: Annotated[
        Literal["adamw", "adam", "rmsprop", "sgd"], Key("0.1", "always", condition="optimizer")
    ] = Field("adamw", description="optimizer")
    lr: Annotated[float, Key("0.1", "always", condition="lr")] = Field(
        1e-3, gt=0, description="learning rate"
    )
    head_lr: Annotated[float | None, Key("0.1", "always")] = Field(
        None, gt=0, description="learning rate of the head; lr if not set"
    )
    # What the loss itself learns is part of the method.
    loss_lr: Annotated[float | None, Key("0.1", "always", compared=False)] = Field(
        None, gt=0, description="learning rate of the loss's learned weights; lr if not set"
    )
    weight_decay: Annotated[float, Key("0.1", "always", condition="weight_decay")] = Field(
        1e-4, ge=0, description="weight decay of backbone and head"
    )
    loss_weight_decay: Annotated[float, Key("0.1", compared=False)] = Field(
        0.0,
        ge=0,
        description="weight decay of the loss's learned weights, except those it never decays",
    )
    momentum: Annotated[
        float, Key("0.1", "always", active_when=(when("optim.name", "rmsprop", "sgd"),))
    ] = Field(0.9, ge=0, lt=1, description="momentum of the optimizer")
    schedule: Annotated[
        Literal["constant", "step", "cosine", "one-cycle"],
        Key("0.1", "always", condition="schedule"),
    ] = Field("constant", description="schedule of the learning rate")
    step_size: Annotated[int, Key("0.1", "always", active_when=STEPPED)] = Field(
        10, ge=1, description="epochs between two steps of the schedule"
    )
    gamma: Annotated[float, Key("0.1", "always", active_when=STEPPED)] = Field(
        0.1, gt=0, description="factor of one step of the schedule"
    )
    warmup_epochs: Annotated[int, Key("0.1", "always", active_when=NOT_FROZEN)] = Field(
        0, ge=0, description="first epochs, in which the backbone is not trained"
    )
    clip_value: Annotated[float | None, Key("0.1", "always")] = Field(
        None, gt=0, description="largest absolute value of an element of a gradient"
    )
    clip_norm: Annotated[float | None, Key("0.1", "always")] = Field(
        None, gt=0, description="largest norm of the gradient"
    )


class TrainConfig(Section):
    """Length of training, devices, precision, validation and logging."""

    epochs: Annotated[int, Key("0.1", "always", condition="epochs")] = Field(
        10, ge=0, description="passes of the sampler; 0: the untrained network is tested"
    )
    batches_per_epoch: Annotated[int | None, Key("0.1", "always", condition="steps")] = Field(
        None, ge=1, description="batches of an epoch; the sampler's own number if not set"
    )
    validate_every: Annotated[int, Key("0.1", "always", active_when=VALIDATED)] = Field(
        1, ge=1, description="epochs between validations"
    )
    patience: Annotated[int | None, Key("0.1", "always", active_when=VALIDATED)] = Field(
        None, ge=1, description="validations in a row without a gain before training ends"
    )
    patience_epochs: Annotated[int | None, Key("0.1", active_when=VALIDATED)] = Field(
        None, ge=1, description="training ends when the best epoch is more than this many back"
    )
    metric: Annotated[str, Key("0.1", "always", active_when=VALIDATED)] = Field(
        "map@r", description="metric that chooses the epoch, on validation classes"
    )
    precision: Annotated[Literal["32-true", "bf16-mixed", "16-mixed"], Key("0.1", "always")] = (
        Field("32-true", description="precision of the network's computations")
    )
    device: Annotated[str, Key("0.1", "always", compared=False)] = Field(
        "auto", description="cpu, cuda, mps, or auto: the best that there is"
    )
    # Devices and nodes share one batch: the outcome does not depend on how many there are.
    devices: Annotated[int, Key("0.1", "never", compared=False, short=True)] = Field(
        1, ge=1, description="processes on this machine, one per device"
    )
    nodes: Annotated[int, Key("0.1", "never", compared=False, short=True)] = Field(
        1, ge=1, description="machines"
    )
    accumulate: Annotated[int, Key("0.1")] = Field(
        1,
        ge=1,
        description="chunks in which a batch is processed, to save memory; pairs span all chunks",
    )
    channels_last: Annotated[bool, Key("0.1", "always", compared=False)] = Field(
        True, description="memory layout of images and feature maps"
    )
    compile: Annotated[bool, Key("0.1", "always", compared=False)] = Field(
        False, description="compile the network, or of a frozen one the head with its loss"
    )
    # Computes the same values twice.
    activation_checkpointing: Annotated[bool, Key("0.1", compared=False)] = Field(
        False, description="recompute activations in the backward pass, to save memory"
    )
    ema: Annotated[float | None, Key("0.1")] = Field(
        None, gt=0, lt=1, description="decay of averaged weights, which are validated and tested"
    )
    loggers: Annotated[
        OneOrMore[Literal["tensorboard", "csv", "mlflow", "wandb"]],
        Key("0.1", "never", compared=False),
    ] = Field(("tensorboard",), description="where metrics of training are logged")
    eval_batch_size: Annotated[int, Key("0.1", "always", compared=False)] = Field(
        256, ge=1, description="images of a batch in validation and test"
    )
    checkpoint_seconds: Annotated[float, Key("0.1", "never", compared=False)] = Field(
        60, ge=0, description="seconds between checkpoints inside an epoch"
    )


class ProtocolConfig(Section):
    """The classes for training, validation and test (docs/training.md)."""

    name: Annotated[
        Literal["paper", "fixed-validation", "cross-validation"],
        Key("0.1", "always", condition="protocol"),
    ] = Field("fixed-validation", description="which classes validate; docs/training.md")
    ratio: Annotated[
        float,
        Key(
            "0.1",
            "always",
            condition="protocol",
            active_when=(when("protocol.name", "fixed-validation"),),
        ),
    ] = Field(0.9, gt=0, lt=1, description="share of the training classes that train")
    folds: Annotated[
        int, Key("0.1", "always", condition="protocol", active_when=CROSS_VALIDATED)
    ] = Field(4, ge=2, description="parts that the training classes are cut into")
    fold: Annotated[int, Key("0.1", "always", compared=False)] = Field(
        0, ge=0, description="the part that validates, from 0"
    )
    order: Annotated[
        Literal["sequential", "random"],
        Key("0.1", "always", condition="protocol", active_when=CROSS_VALIDATED),
    ] = Field("sequential", description="how classes are distributed over the folds")
    seed: Annotated[int | None, Key("0.1", compared=False)] = Field(
        None, ge=0, description="seed that draws the classes; the run's if not set"
    )
    test: Annotated[bool, Key("0.1", "always", compared=False)] = Field(
        True, description="false: never read the test set (tuning trials)"
    )
    test_untrained: Annotated[bool, Key("0.1", "never", compared=False)] = Field(
        True, description="also test the network as it was before training"
    )
    metrics: Annotated[OneOrMore[str], Key("0.1", "always", compared=False)] = Field(
        ("recall@1", "recall@2", "recall@4", "recall@8", "map@r"),
        description="metrics of validation and test (docs/evaluation.md)",
    )


class RunConfig(Section):
    """Everything that determines the outcome of one run."""

    seed: Annotated[int, Key("0.1", "always", compared=False)] = Field(
        0, ge=0, lt=2**32, description="seed of all random numbers"
    )
    runs_dir: Annotated[Path, Key("0.1", "never", compared=False)] = Field(
        Path("runs"), description="folder that contains the folders of all runs"
    )
    data: Annotated[DataConfig, Key("0.1", "always")] = DataConfig()
    model: Annotated[ModelConfig, Key("0.1", "always")] = ModelConfig()
    loss: Annotated[PartConfig, Key("0.1", "always", compared=False)] = Field(
        PartConfig(name="multi-similarity"),
        description="the loss (`lookalike list losses`) and its arguments",
    )
    miner: Annotated[PartConfig | None, Key("0.1", "always", compared=False)] = Field(
        None, description="the miner (`lookalike list miners`) and its arguments"
    )
    mix: Annotated[MixConfig | None, Key("0.1", compared=False)] = None
    memory: Annotated[MemoryConfig | None, Key("0.1", compared=False)] = None
    sampler: Annotated[
        PartConfig,
        Key(
            "0.1",
            "always",
            compared=False,
            arguments={
                "batch_size": (
                    Key("0.1", "always", condition="batch_size"),
                    "images of a batch, of all devices together",
                )
            },
        ),
    ] = Field(
        PartConfig.model_validate({"name": "spc", "batch_size": 128, "per_class": 4}),
        description="the batch sampler (`lookalike list samplers`) and its arguments",
    )
    optim: Annotated[OptimConfig, Key("0.1", "always")] = OptimConfig()
    train: Annotated[TrainConfig, Key("0.1", "always")] = TrainConfig()
    protocol: Annotated[ProtocolConfig, Key("0.1", "always")] = ProtocolConfig()

    def identity(self) -> dict[str, Any]:
        """The values that the outcome depends on; the name of the run's folder hashes them."""
        return identity(self)
