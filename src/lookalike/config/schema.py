"""The schema of a run's configuration.

Each field declares its type, its description (the docstring below it) and, by
:func:`~lookalike.config.keys.key`, its default, range, whether it changes the outcome, whether it
makes a comparison unfair and when it has an effect. There is no other list of keys.
"""

from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    PositiveInt,
    Tag,
    model_validator,
)

from lookalike.config.keys import Key, Rule, identity, key, unless, when

Item = TypeVar("Item")
OneOrMore = Annotated[
    tuple[Item, ...],
    BeforeValidator(lambda given: (given,) if isinstance(given, str | float | int) else given),
]
"""Several values, or one written without brackets."""


Value = TypeVar("Value")
Keys = TypeVar("Keys")
ValueOrKeys = Annotated[
    Annotated[Value, Tag("value")] | Annotated[Keys, Tag("keys")],
    Discriminator(lambda given: "keys" if isinstance(given, dict | BaseModel) else "value"),
]
"""One value, or the keys of a section."""


def _ascending(given: tuple[float, float]) -> tuple[float, float]:
    if given[0] > given[1]:
        raise ValueError("the first number must not be above the second")
    return given


def _no_switch(given: Any) -> Any:
    if isinstance(given, bool):
        raise ValueError("a number from 0 to 1 is wanted, not true or false")
    return given


PositiveFloat = Annotated[float, Field(gt=0)]
Share = Annotated[float, Field(ge=0, le=1), BeforeValidator(_no_switch)]
Jitter = Annotated[float, Field(ge=0, le=0.5)]
Magnitude = Annotated[int, Field(ge=0, le=30)]
MOST_DIM = 1_000_000
MOST_PIXELS = 16_384
Side = Annotated[int, Field(ge=1, le=MOST_PIXELS)]
"""The length of a side of an image."""
Bounds = Annotated[tuple[PositiveFloat, PositiveFloat], AfterValidator(_ascending)]
"""The least and the largest value of something that is drawn."""

SPLIT_DATASETS = ("glyphs", "cub", "cars", "sop", "inshop", "omniglot", "omniglot-small")
"""Data sets with training and test classes of their own; any other is a user's own images."""
VALIDATED = (unless("protocol.name", "paper", "all"),)
CROSS_VALIDATED = (when("protocol.name", "cross-validation"),)
STEPPED = (when("optim.schedule", "step"),)
FROZEN = (when("model.frozen", True),)
NOT_FROZEN = (when("model.frozen", False),)
CUT = (unless("model.frozen_until", None),)
TRAINS = unless("train.epochs", 0)
TRAINED_WEIGHTS = Rule(
    unless("model.weights", "none"), why="trained weights, of imagenet or from a file"
)
WHOLE_NETWORK = Rule(CUT[0], why="it needs a whole network, and that cuts it")
ONE_STORED_VIEW = tuple(
    Rule(rule, why="it keeps one view of each test image")
    for rule in (
        when("data.transform.test.flip", True),
        unless("data.transform.test.scales", (1.0,), None),
    )
)
TRANSFORM: dict[str, Any] = {"hashed": "when set", "condition": "transform"}
RESIZED_CROP = TRANSFORM | {
    "active_when": (unless("data.transform.crop", "random", "centre", "none"),)
}
BATCH_SIZE = "images of a batch, of all devices together"


def weights_kind(weights: str) -> str:
    """Weights in the hash of a run; the content of a file has its own fingerprint."""
    return weights if weights in ("none", "imagenet") else "file"


class Section(BaseModel):
    """A part of the configuration; unknown keys are errors, and values are immutable."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, allow_inf_nan=False, use_attribute_docstrings=True
    )


class ColorJitterConfig(Section):
    """Colour jitter: factors from 1 - x to 1 + x, each drawn for each image."""

    brightness: Share = key(0.0, **TRANSFORM)
    """by how much brightness may change"""
    contrast: Share = key(0.0, **TRANSFORM)
    """by how much contrast may change"""
    saturation: Share = key(0.0, **TRANSFORM)
    """by how much saturation may change"""
    hue: float = key(0.0, ge=0, le=0.5, **TRANSFORM)
    """share of a turn by which the hue may be rotated"""
    grayscale: Share = key(0.0, **TRANSFORM)
    """probability that an image is made grey before"""


class RandAugmentConfig(Section):
    """RandAugment (Cubuk et al., 2020) with the operations of torchvision."""

    num_ops: int = key(2, ge=1, **TRANSFORM)
    """operations on each image"""
    magnitude: int = key(9, ge=0, le=30, **TRANSFORM)
    """their strength"""


class ErasingConfig(Section):
    """Random erasing (Zhong et al., 2020): a rectangle becomes the mean colour of ImageNet."""

    probability: Share = key(0.25, **TRANSFORM)
    """probability for each image"""
    scale: Bounds = key((0.02, 0.33), **TRANSFORM)
    """share of the image's area"""
    ratio: Bounds = key((0.3, 3.3), **TRANSFORM)
    """height by width"""


class ViewsConfig(Section):
    """How images are shown to the network in validation, test and search."""

    size: int | None = key(None, ge=1, le=MOST_PIXELS, **TRANSFORM)
    """side of the centre crop; that of training if not set"""
    resize: int | None = key(None, ge=1, le=MOST_PIXELS, **TRANSFORM)
    """shorter side before the crop; in proportion to that of training if not set"""
    flip: bool = key(False, **TRANSFORM)
    """the mirrored image counts too: embeddings are averaged"""
    scales: OneOrMore[PositiveFloat] = key((1.0,), min_length=1, **TRANSFORM)
    """sizes relative to the crop, whose embeddings are averaged"""


class TransformConfig(Section):
    """Crops and augmentation by keys, instead of the name of a preset (docs/data.md)."""

    preset: str | None = key(None, **TRANSFORM)
    """where keys that are not set come from; proxy-anchor if not set"""
    size: int | None = key(None, ge=1, le=MOST_PIXELS, **TRANSFORM)
    """side of the images of a batch"""
    resize: Side | tuple[Side, Side] | None = key(None, **TRANSFORM)
    """shorter side of stored images, or height and width; in proportion to size if not set"""
    crop: Literal["random-resized", "random", "centre", "none"] | None = key(None, **TRANSFORM)
    """random area and shape, random place, centre, or none: the whole image becomes a square"""
    scale: Bounds | None = key(None, **RESIZED_CROP)
    """area of a crop, as shares of the image"""
    ratio: Bounds | None = key(None, **RESIZED_CROP)
    """width by height of a crop"""
    interpolation: Literal["bilinear", "bicubic"] | None = key(None, **TRANSFORM)
    """how crops are resized, with antialiasing; stored images are always resized bilinearly"""
    flip: Share | None = key(None, **TRANSFORM)
    """probability that an image is mirrored"""
    color_jitter: ValueOrKeys[Jitter, ColorJitterConfig] | None = key(None, **TRANSFORM)
    """one strength, with one image in five grey (0: none), or keys"""
    rand_augment: ValueOrKeys[Magnitude, RandAugmentConfig] | None = key(None, **TRANSFORM)
    """magnitude of RandAugment (0: none), or keys"""
    erasing: ValueOrKeys[Share, ErasingConfig] | None = key(None, **TRANSFORM)
    """probability of random erasing (0: none), or keys"""
    mean: Literal["network"] | tuple[float, float, float] | None = key(None, **TRANSFORM)
    """of red, green, blue from 0 to 1; the network's own if not set"""
    std: Literal["network"] | tuple[PositiveFloat, PositiveFloat, PositiveFloat] | None = key(
        None, **TRANSFORM
    )
    """of red, green, blue from 0 to 1; the network's own if not set"""
    test: ViewsConfig | None = key(None, **TRANSFORM)

    @model_validator(mode="after")
    def check(self) -> "TransformConfig":
        """Refuse half a normalisation."""
        if (self.mean in (None, "network")) != (self.std in (None, "network")):
            raise ValueError("mean and std go together: give the values of both or of none")
        return self


class DataConfig(Section):
    """The images and their transform."""

    name: str = key("glyphs", condition="data")
    """data set; `lookalike list datasets` shows them"""
    root: Path | None = key(None, hashed="never", compared=False)
    """folder or file of the data set"""
    transform: ValueOrKeys[str, TransformConfig] = key("glyphs", condition="transform")
    """crop and augmentation: a preset, network, package.module:name, or keys (docs/data.md)"""
    skip_unreadable: bool = key(False)
    """leave out images that cannot be decoded instead of stopping"""
    store: Literal["raw", "jpeg", "auto"] = key("raw", hashed="when set")
    """how images are cached: raw pixels, JPEGs in shards, or by the size of the data"""
    jpeg_quality: int = key(
        95, ge=1, le=100, hashed="when set", active_when=(when("data.store", "jpeg", "auto"),)
    )
    """quality of the cached JPEGs"""


class LoraConfig(Section):
    """Low-rank adapters in the backbone, whose own weights are frozen (docs/transformers.md)."""

    rank: int = key(8, ge=1)
    """rank of the adapters"""
    alpha: float = key(16, gt=0)
    """scale of the adapters; what they add is multiplied by alpha / rank"""
    targets: OneOrMore[str] = key(("attention",))
    """layers with an adapter: attention, linear (all linear layers), or names such as qkv"""
    dropout: float = key(0, ge=0, lt=1)
    """share of an adapter's inputs that is dropped in training"""


class ModelConfig(Section):
    """The network, its initial weights and the embedding."""

    network: str = key(
        "small-cnn", condition="network", features=(*FROZEN, *CUT), baselines="values"
    )
    """backbone; `lookalike list networks` shows them"""
    weights: str = key("none", condition="weights", hashed_as=weights_kind, baselines="values")
    """none, imagenet, or the path of a file of weights"""
    dim: int = key(
        128,
        ge=0,
        le=MOST_DIM,
        condition="dim",
        baselines="values",
        excludes=(
            Rule(when("model.head_init", "pca", "lda"), (0,), "that needs a head"),
            *(
                Rule(rule & TRAINS, (0,), "without a head, nothing is left to learn")
                for rule in (
                    when("model.freeze_backbone", True),
                    unless("optim.warmup_epochs", 0),
                    *FROZEN,
                )
            ),
        ),
    )
    """size of the embedding; 0: the pooled features, without a head"""
    pooling: Literal["avg", "max", "avg+max", "gem", "cls", "map"] = key(
        "avg",
        condition="pooling",
        features=FROZEN,
        baselines="values",
        excludes=(
            Rule(FROZEN[0], ("gem",), "gem learns, so its features cannot be frozen"),
            Rule(
                when("mix.where", "feature"),
                ("map",),
                "maps are mixed before they are pooled, and the network pools itself; choose "
                "mix.where=embed or mix.where=input",
            ),
        ),
    )
    """how a feature map becomes one vector; cls: the class token, map: the network's own pooling"""
    layer_norm: bool = key(False, baselines="values")
    """layer normalization between pooling and head"""
    # What the loss is given; tests compare directions, whatever the lengths.
    normalize: bool = key(True, compared=False)
    """embeddings have length 1"""
    freeze_bn_statistics: bool = key(False, condition="bn_frozen", active_when=NOT_FROZEN)
    """batch norm keeps its running statistics"""
    freeze_bn_affine: bool = key(False, condition="bn_frozen", active_when=NOT_FROZEN)
    """scale and shift of batch norm are not trained"""
    freeze_backbone: bool = key(False, active_when=NOT_FROZEN)
    """only the head is trained; images are passed every time"""
    freeze_until: str | None = key(
        None,
        coerce_numbers_to_str=True,
        hashed="when set",
        active_when=NOT_FROZEN,
        excludes=(Rule(CUT[0]), Rule(when("model.freeze_backbone", True))),
    )
    """only what follows this module is trained; images are passed every time"""
    lora: LoraConfig | None = key(
        None,
        hashed="when set",
        excludes=tuple(
            Rule(when(f"model.{fixed}", True), why="adapters learn, and it lets nothing learn")
            for fixed in ("frozen", "freeze_backbone")
        ),
        needs=(TRAINED_WEIGHTS,),
    )
    frozen: bool = key(
        False,
        baselines="way",
        excludes=(
            Rule(
                CUT[0],
                why="all of the network is frozen; leave out model.frozen_until "
                "(model.frozen_until=null, where a recipe has it)",
            ),
            *ONE_STORED_VIEW,
        ),
        needs=(TRAINED_WEIGHTS,),
    )
    """features are computed once; only the head is trained"""
    frozen_until: str | None = key(
        None,
        coerce_numbers_to_str=True,
        hashed="when set",
        dropped_with="network",
        features=CUT,
        excludes=ONE_STORED_VIEW,
        needs=(TRAINED_WEIGHTS,),
    )
    """the output of this module is computed once; only what follows it is trained"""
    frozen_views: int = key(
        4, ge=0, active_when=(*FROZEN, *CUT), features=(*FROZEN, *CUT), baselines="way"
    )
    """augmented views of each image"""
    head_init: Literal["random", "pca", "lda", "auto"] = key("random")
    """how the head starts; auto: lda, its shrinkage chosen on halves of the training classes"""
    head_shrink: float = key(1.0, gt=0, active_when=(when("model.head_init", "lda"),))
    """shrinkage of the within-class covariance"""


class PartConfig(BaseModel):
    """A part from a registry: its name and arguments."""

    model_config = ConfigDict(extra="allow", frozen=True, use_attribute_docstrings=True)

    name: str = key()
    """a registered name or package.module:Class; its arguments are further keys"""

    @property
    def arguments(self) -> dict[str, Any]:
        """Everything but the name."""
        return dict(self.__pydantic_extra__ or {})


class MixConfig(Section):
    """Mixed examples as additional candidates; see docs/mixing.md."""

    where: Literal["input", "feature", "embed"] = key(
        excludes=(
            Rule(
                FROZEN[0],
                ("input",),
                "it mixes pixels, and a frozen network has none; with "
                "model.frozen_until=MODULE they pass the frozen front",
            ),
        )
    )
    """what is mixed: images, feature maps or embeddings"""
    alpha: float = key(2, gt=0)
    """shares are drawn from Beta(alpha, alpha)"""
    weight: float = key(0.4, ge=0)
    """weight of the mixed loss relative to the clean one"""
    pairs: Literal["both", "positive-negative", "anchor-negative"] = key("both")
    """which pairs are mixed"""
    negatives: PositiveInt | Literal["all"] | None = key(None)
    """most similar negatives mixed per anchor; None: 1 for input, else all"""
    per_pair: bool = key(True)
    """false: one share for the whole batch"""


class MemoryConfig(Section):
    """Embeddings of previous batches as additional candidates; see docs/memory.md."""

    size: int = key(8192, ge=1)
    """embeddings that are kept"""
    start: int = key(1000, ge=0)
    """batches before the memory is read"""


class OptimConfig(Section):
    """The optimizer, with learning rates for the network, the head and the loss."""

    name: Literal["adamw", "adam", "rmsprop", "sgd"] = key("adamw", condition="optimizer")
    """optimizer"""
    lr: float = key(0.001, gt=0, condition="lr")
    """learning rate"""
    head_lr: float | None = key(None, gt=0)
    """learning rate of the head; lr if not set"""
    # What the loss itself learns is part of the method.
    loss_lr: float | None = key(None, gt=0, compared=False)
    """learning rate of the loss's learned weights; lr if not set"""
    weight_decay: float = key(0.0001, ge=0, condition="weight_decay")
    """weight decay of backbone and head"""
    decay_vectors: bool = key(True, hashed="when set")
    """whether biases and the scales of norm layers decay too"""
    layer_decay: float | None = key(None, gt=0, le=1, hashed="when set", active_when=NOT_FROZEN)
    """factor on the learning rate from each layer of the backbone to the layer before it"""
    loss_weight_decay: float = key(0.0, ge=0, hashed="when set", compared=False)
    """weight decay of the loss's learned weights, except those it never decays"""
    momentum: float = key(0.9, ge=0, lt=1, active_when=(when("optim.name", "rmsprop", "sgd"),))
    """momentum of the optimizer"""
    schedule: Literal["constant", "step", "cosine", "one-cycle"] = key(
        "constant", condition="schedule"
    )
    """schedule of the learning rate"""
    step_size: int = key(10, ge=1, active_when=STEPPED)
    """epochs between two steps of the schedule"""
    gamma: float = key(0.1, gt=0, active_when=STEPPED)
    """factor of one step of the schedule"""
    warmup_epochs: int = key(0, ge=0, active_when=NOT_FROZEN)
    """first epochs, in which the backbone is not trained"""
    warmup_steps: int = key(
        0,
        ge=0,
        hashed="when set",
        excludes=(Rule(when("optim.schedule", "one-cycle"), why="that has a warm-up of its own"),),
    )
    """first steps, in which the learning rate grows linearly to its full value"""
    clip_value: float | None = key(None, gt=0, excludes=(Rule(unless("optim.clip_norm", None)),))
    """largest absolute value of an element of a gradient"""
    clip_norm: float | None = key(None, gt=0)
    """largest norm of the gradient"""


class TrainConfig(Section):
    """Length of training, devices, precision, validation and logging."""

    epochs: int = key(10, ge=0, condition="epochs")
    """passes of the sampler; 0: the untrained network is tested"""
    batches_per_epoch: int | None = key(None, ge=1, condition="steps")
    """batches of an epoch; the sampler's own number if not set"""
    validate_every: int = key(1, ge=1, active_when=VALIDATED)
    """epochs between validations"""
    patience: int | None = key(
        None, ge=1, active_when=VALIDATED, excludes=(Rule(unless("train.patience_epochs", None)),)
    )
    """validations in a row without a gain before training ends"""
    patience_epochs: int | None = key(None, ge=1, hashed="when set", active_when=VALIDATED)
    """training ends when the best epoch is more than this many back"""
    metric: str = key("map@r", active_when=VALIDATED, baselines="values", of_study=True)
    """metric that chooses the epoch, on validation classes"""
    precision: Literal["32-true", "bf16-mixed", "16-mixed"] = key("32-true", baselines="values")
    """precision of the network in training and validation; tests are in full precision"""
    matmul_precision: Literal["highest", "high", "medium"] = key("highest", hashed="when set")
    """precision of float32 matrix products; high: TensorFloat-32, where the device has it"""
    device: str = key("auto", compared=False, baselines="values")
    """cpu, cuda, mps, or auto: the best that there is"""
    # Devices and nodes share one batch: the outcome does not depend on how many there are.
    devices: int = key(1, ge=1, hashed="never", compared=False, short=True)
    """processes on this machine, one per device"""
    nodes: int = key(1, ge=1, hashed="never", compared=False, short=True)
    """machines"""
    accumulate: int = key(
        1,
        ge=1,
        hashed="when set",
        excludes=(
            Rule(when("mix.where", "feature"), why="choose mix.where=embed or mix.where=input"),
        ),
    )
    """chunks in which a batch is processed, to save memory; pairs span all chunks"""
    channels_last: bool = key(True, compared=False)
    """memory layout of images and feature maps"""
    compile: bool = key(False, compared=False, excludes=(WHOLE_NETWORK,))
    """compile the network, or of a frozen one the head with its loss"""
    # Computes the same values twice.
    activation_checkpointing: bool = key(
        False, hashed="when set", compared=False, excludes=(WHOLE_NETWORK,)
    )
    """recompute activations in the backward pass, to save memory"""
    ema: float | None = key(None, gt=0, lt=1, hashed="when set")
    """decay of averaged weights, which are validated and tested"""
    loggers: OneOrMore[Literal["tensorboard", "csv", "mlflow", "wandb"]] = key(
        ("tensorboard",), hashed="never", compared=False
    )
    """where metrics of training are logged"""
    eval_batch_size: int = key(256, ge=1, hashed="never", compared=False, baselines="way")
    """images of a batch in validation and test"""
    # Batches are the same, whoever makes them.
    workers: int | None = key(None, ge=0, hashed="never", compared=False)
    """threads that read images, 0: that of the training; if not set, every core but 0 on a CPU"""
    prefetch: int = key(2, ge=1, hashed="never", compared=False)
    """batches that are made ahead of the network"""
    checkpoint_seconds: float = key(60, ge=0, hashed="never", compared=False)
    """seconds between checkpoints inside an epoch"""


class ProtocolConfig(Section):
    """The classes for training, validation and test (docs/training.md)."""

    name: Literal["paper", "fixed-validation", "cross-validation", "all"] = key(
        "fixed-validation", condition="protocol"
    )
    """which classes validate; docs/training.md"""
    ratio: float = key(
        0.9,
        gt=0,
        lt=1,
        condition="protocol",
        active_when=(when("protocol.name", "fixed-validation"),),
    )
    """share of the training classes that train"""
    folds: int = key(4, ge=2, condition="protocol", active_when=CROSS_VALIDATED)
    """parts that the training classes are cut into"""
    fold: int = key(0, ge=0, compared=False, of_study=True)
    """the part that validates, from 0"""
    order: Literal["sequential", "random"] = key(
        "random",
        condition="protocol",
        active_when=(*CROSS_VALIDATED, unless("data.name", *SPLIT_DATASETS)),
    )
    """which classes form a fold, and which test where the data do not say: in order, or drawn"""
    seed: int | None = key(None, ge=0, hashed="when set", compared=False, of_study=True)
    """seed that draws the classes; the run's if not set"""
    test: bool = key(True, compared=False)
    """false: never read the test set (tuning trials)"""
    test_untrained: bool = key(True, hashed="never", compared=False)
    """also test the network as it was before training"""
    metrics: OneOrMore[str] = key(
        ("recall@1", "recall@2", "recall@4", "recall@8", "map@r"), hashed="never", compared=False
    )
    """metrics of validation and test (docs/evaluation.md)"""


class RunConfig(Section):
    """Everything that determines the outcome of one run."""

    seed: int = key(0, ge=0, lt=2**32, compared=False, baselines="values", of_study=True)
    """seed of all random numbers"""
    runs_dir: Path = key(Path("runs"), hashed="never", compared=False, of_study=True)
    """folder that contains the folders of all runs"""
    data: DataConfig = key(DataConfig(), baselines="values")
    model: ModelConfig = key(ModelConfig())
    loss: PartConfig = key(PartConfig(name="multi-similarity"), compared=False)
    """the loss (`lookalike list losses`) and its arguments"""
    miner: PartConfig | None = key(None, compared=False)
    """the miner (`lookalike list miners`) and its arguments"""
    mix: MixConfig | None = key(None, hashed="when set", compared=False)
    memory: MemoryConfig | None = key(None, hashed="when set", compared=False)
    sampler: PartConfig = key(
        PartConfig.model_validate({"name": "spc", "batch_size": 128, "per_class": 4}),
        compared=False,
        arguments={"batch_size": (Key(condition="batch_size"), BATCH_SIZE)},
    )
    """the batch sampler (`lookalike list samplers`) and its arguments"""
    optim: OptimConfig = key(OptimConfig())
    train: TrainConfig = key(TrainConfig())
    protocol: ProtocolConfig = key(ProtocolConfig(), baselines="values")

    def identity(self) -> dict[str, Any]:
        """The values that the outcome depends on; the name of the run's folder hashes them."""
        return identity(self)
