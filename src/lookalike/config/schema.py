"""The schema of a run's configuration.

Each field declares its type, default, description (the docstring below it) and, in a
:class:`~lookalike.config.keys.Key`, whether it changes the outcome, whether it makes a comparison
unfair and when it has an effect. There is no other list of keys.
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

from lookalike.config.keys import Key, Rule, identity, unless, when

Item = TypeVar("Item")
OneOrMore = Annotated[
    tuple[Item, ...],
    BeforeValidator(lambda given: (given,) if isinstance(given, str | float | int) else given),
]
"""Several values, or one written without brackets."""


def _value_or_keys(given: Any) -> str:
    """Which of two a setting is: one value, or keys of a section."""
    return "keys" if isinstance(given, dict | BaseModel) else "value"


VALUE_OR_KEYS = Discriminator(_value_or_keys)


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
TRANSFORM = Key(hashed="when set", condition="transform")
RESIZED_CROP = Key(
    hashed="when set",
    condition="transform",
    active_when=(unless("data.transform.crop", "random", "centre", "none"),),
)
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

    brightness: Annotated[Share, TRANSFORM] = 0.0
    """by how much brightness may change"""
    contrast: Annotated[Share, TRANSFORM] = 0.0
    """by how much contrast may change"""
    saturation: Annotated[Share, TRANSFORM] = 0.0
    """by how much saturation may change"""
    hue: Annotated[float, TRANSFORM] = Field(0.0, ge=0, le=0.5)
    """share of a turn by which the hue may be rotated"""
    grayscale: Annotated[Share, TRANSFORM] = 0.0
    """probability that an image is made grey before"""


class RandAugmentConfig(Section):
    """RandAugment (Cubuk et al., 2020) with the operations of torchvision."""

    num_ops: Annotated[int, TRANSFORM] = Field(2, ge=1)
    """operations on each image"""
    magnitude: Annotated[int, TRANSFORM] = Field(9, ge=0, le=30)
    """their strength"""


class ErasingConfig(Section):
    """Random erasing (Zhong et al., 2020): a rectangle becomes the mean colour of ImageNet."""

    probability: Annotated[Share, TRANSFORM] = 0.25
    """probability for each image"""
    scale: Annotated[Bounds, TRANSFORM] = (0.02, 0.33)
    """share of the image's area"""
    ratio: Annotated[Bounds, TRANSFORM] = (0.3, 3.3)
    """height by width"""


class ViewsConfig(Section):
    """How images are shown to the network in validation, test and search."""

    size: Annotated[int | None, TRANSFORM] = Field(None, ge=1, le=MOST_PIXELS)
    """side of the centre crop; that of training if not set"""
    resize: Annotated[int | None, TRANSFORM] = Field(None, ge=1, le=MOST_PIXELS)
    """shorter side before the crop; in proportion to that of training if not set"""
    flip: Annotated[bool, TRANSFORM] = False
    """the mirrored image counts too: embeddings are averaged"""
    scales: Annotated[OneOrMore[PositiveFloat], TRANSFORM] = Field((1.0,), min_length=1)
    """sizes relative to the crop, whose embeddings are averaged"""


class TransformConfig(Section):
    """Crops and augmentation by keys, instead of the name of a preset (docs/data.md)."""

    preset: Annotated[str | None, TRANSFORM] = None
    """where keys that are not set come from; proxy-anchor if not set"""
    size: Annotated[int | None, TRANSFORM] = Field(None, ge=1, le=MOST_PIXELS)
    """side of the images of a batch"""
    resize: Annotated[Side | tuple[Side, Side] | None, TRANSFORM] = None
    """shorter side of stored images, or height and width; in proportion to size if not set"""
    crop: Annotated[Literal["random-resized", "random", "centre", "none"] | None, TRANSFORM] = None
    """random area and shape, random place, centre, or none: the whole image becomes a square"""
    scale: Annotated[Bounds | None, RESIZED_CROP] = None
    """area of a crop, as shares of the image"""
    ratio: Annotated[Bounds | None, RESIZED_CROP] = None
    """width by height of a crop"""
    interpolation: Annotated[Literal["bilinear", "bicubic"] | None, TRANSFORM] = None
    """how crops are resized, with antialiasing; stored images are always resized bilinearly"""
    flip: Annotated[Share | None, TRANSFORM] = None
    """probability that an image is mirrored"""
    color_jitter: Annotated[
        Annotated[
            Annotated[float, Field(ge=0, le=0.5), Tag("value")]
            | Annotated[ColorJitterConfig, Tag("keys")],
            VALUE_OR_KEYS,
        ]
        | None,
        TRANSFORM,
    ] = None
    """one strength, with one image in five grey (0: none), or keys"""
    rand_augment: Annotated[
        Annotated[
            Annotated[int, Field(ge=0, le=30), Tag("value")]
            | Annotated[RandAugmentConfig, Tag("keys")],
            VALUE_OR_KEYS,
        ]
        | None,
        TRANSFORM,
    ] = None
    """magnitude of RandAugment (0: none), or keys"""
    erasing: Annotated[
        Annotated[
            Annotated[Share, Tag("value")] | Annotated[ErasingConfig, Tag("keys")], VALUE_OR_KEYS
        ]
        | None,
        TRANSFORM,
    ] = None
    """probability of random erasing (0: none), or keys"""
    mean: Annotated[Literal["network"] | tuple[float, float, float] | None, TRANSFORM] = None
    """of red, green, blue from 0 to 1; the network's own if not set"""
    std: Annotated[
        Literal["network"] | tuple[PositiveFloat, PositiveFloat, PositiveFloat] | None, TRANSFORM
    ] = None
    """of red, green, blue from 0 to 1; the network's own if not set"""
    test: Annotated[ViewsConfig | None, TRANSFORM] = None

    @model_validator(mode="after")
    def check(self) -> "TransformConfig":
        """Refuse half a normalisation."""
        if (self.mean in (None, "network")) != (self.std in (None, "network")):
            raise ValueError("mean and std go together: give the values of both or of none")
        return self


class DataConfig(Section):
    """The images and their transform."""

    name: Annotated[str, Key(condition="data")] = "glyphs"
    """data set; `lookalike list datasets` shows them"""
    root: Annotated[Path | None, Key(hashed="never", compared=False)] = None
    """folder or file of the data set"""
    transform: Annotated[
        Annotated[str, Tag("value")] | Annotated[TransformConfig, Tag("keys")],
        VALUE_OR_KEYS,
        Key(condition="transform"),
    ] = "glyphs"
    """crop and augmentation: a preset, network, package.module:name, or keys (docs/data.md)"""
    skip_unreadable: Annotated[bool, Key()] = False
    """leave out images that cannot be decoded instead of stopping"""
    store: Annotated[Literal["raw", "jpeg", "auto"], Key(hashed="when set")] = "raw"
    """how images are cached: raw pixels, JPEGs in shards, or by the size of the data"""
    jpeg_quality: Annotated[
        int, Key(hashed="when set", active_when=(when("data.store", "jpeg", "auto"),))
    ] = Field(95, ge=1, le=100)
    """quality of the cached JPEGs"""


class LoraConfig(Section):
    """Low-rank adapters in the backbone, whose own weights are frozen (docs/transformers.md)."""

    rank: Annotated[int, Key()] = Field(8, ge=1)
    """rank of the adapters"""
    alpha: Annotated[float, Key()] = Field(16, gt=0)
    """scale of the adapters; what they add is multiplied by alpha / rank"""
    targets: Annotated[OneOrMore[str], Key()] = ("attention",)
    """layers with an adapter: attention, linear (all linear layers), or names such as qkv"""
    dropout: Annotated[float, Key()] = Field(0, ge=0, lt=1)
    """share of an adapter's inputs that is dropped in training"""


class ModelConfig(Section):
    """The network, its initial weights and the embedding."""

    network: Annotated[
        str, Key(condition="network", features=(*FROZEN, *CUT), baselines="values")
    ] = "small-cnn"
    """backbone; `lookalike list networks` shows them"""
    weights: Annotated[
        str, Key(condition="weights", hashed_as=weights_kind, baselines="values")
    ] = "none"
    """none, imagenet, or the path of a file of weights"""
    dim: Annotated[
        int,
        Key(
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
        ),
    ] = Field(128, ge=0, le=MOST_DIM)
    """size of the embedding; 0: the pooled features, without a head"""
    pooling: Annotated[
        Literal["avg", "max", "avg+max", "gem", "cls", "map"],
        Key(
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
        ),
    ] = "avg"
    """how a feature map becomes one vector; cls: the class token, map: the network's own pooling"""
    layer_norm: Annotated[bool, Key(baselines="values")] = False
    """layer normalization between pooling and head"""
    # What the loss is given; tests compare directions, whatever the lengths.
    normalize: Annotated[bool, Key(compared=False)] = True
    """embeddings have length 1"""
    freeze_bn_statistics: Annotated[bool, Key(condition="bn_frozen", active_when=NOT_FROZEN)] = (
        False
    )
    """batch norm keeps its running statistics"""
    freeze_bn_affine: Annotated[bool, Key(condition="bn_frozen", active_when=NOT_FROZEN)] = False
    """scale and shift of batch norm are not trained"""
    freeze_backbone: Annotated[bool, Key(active_when=NOT_FROZEN)] = False
    """only the head is trained; images are passed every time"""
    freeze_until: Annotated[
        str | None,
        Key(
            hashed="when set",
            active_when=NOT_FROZEN,
            excludes=(Rule(CUT[0]), Rule(when("model.freeze_backbone", True))),
        ),
    ] = Field(None, coerce_numbers_to_str=True)
    """only what follows this module is trained; images are passed every time"""
    lora: Annotated[
        LoraConfig | None,
        Key(
            hashed="when set",
            excludes=tuple(
                Rule(when(f"model.{fixed}", True), why="adapters learn, and it lets nothing learn")
                for fixed in ("frozen", "freeze_backbone")
            ),
            needs=(TRAINED_WEIGHTS,),
        ),
    ] = None
    frozen: Annotated[
        bool,
        Key(
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
        ),
    ] = False
    """features are computed once; only the head is trained"""
    frozen_until: Annotated[
        str | None,
        Key(
            hashed="when set",
            features=CUT,
            excludes=ONE_STORED_VIEW,
            needs=(TRAINED_WEIGHTS,),
        ),
    ] = Field(
        None,
        coerce_numbers_to_str=True,  # modules of a sequence are called by number
    )
    """the output of this module is computed once; only what follows it is trained"""
    frozen_views: Annotated[
        int, Key(active_when=(*FROZEN, *CUT), features=(*FROZEN, *CUT), baselines="way")
    ] = Field(4, ge=0)
    """augmented views of each image"""
    head_init: Annotated[Literal["random", "pca", "lda", "auto"], Key()] = "random"
    """how the head starts; auto: lda, its shrinkage chosen on halves of the training classes"""
    head_shrink: Annotated[float, Key(active_when=(when("model.head_init", "lda"),))] = Field(
        1.0, gt=0
    )
    """shrinkage of the within-class covariance"""


class PartConfig(BaseModel):
    """A part from a registry: its name and arguments."""

    model_config = ConfigDict(extra="allow", frozen=True, use_attribute_docstrings=True)

    name: Annotated[str, Key()]
    """a registered name or package.module:Class; its arguments are further keys"""

    @property
    def arguments(self) -> dict[str, Any]:
        """Everything but the name."""
        return dict(self.__pydantic_extra__ or {})


class MixConfig(Section):
    """Mixed examples as additional candidates; see docs/mixing.md."""

    where: Annotated[
        Literal["input", "feature", "embed"],
        Key(
            excludes=(
                Rule(
                    FROZEN[0],
                    ("input",),
                    "it mixes pixels, and a frozen network has none; with "
                    "model.frozen_until=MODULE they pass the frozen front",
                ),
            )
        ),
    ]
    """what is mixed: images, feature maps or embeddings"""
    alpha: Annotated[float, Key()] = Field(2, gt=0)
    """shares are drawn from Beta(alpha, alpha)"""
    weight: Annotated[float, Key()] = Field(0.4, ge=0)
    """weight of the mixed loss relative to the clean one"""
    pairs: Annotated[Literal["both", "positive-negative", "anchor-negative"], Key()] = "both"
    """which pairs are mixed"""
    negatives: Annotated[PositiveInt | Literal["all"] | None, Key()] = None
    """most similar negatives mixed per anchor; None: 1 for input, else all"""
    per_pair: Annotated[bool, Key()] = True
    """false: one share for the whole batch"""


class MemoryConfig(Section):
    """Embeddings of previous batches as additional candidates; see docs/memory.md."""

    size: Annotated[int, Key()] = Field(8192, ge=1)
    """embeddings that are kept"""
    start: Annotated[int, Key()] = Field(1000, ge=0)
    """batches before the memory is read"""


class OptimConfig(Section):
    """The optimizer, with learning rates for the network, the head and the loss."""

    name: Annotated[Literal["adamw", "adam", "rmsprop", "sgd"], Key(condition="optimizer")] = (
        "adamw"
    )
    """optimizer"""
    lr: Annotated[float, Key(condition="lr")] = Field(1e-3, gt=0)
    """learning rate"""
    head_lr: Annotated[float | None, Key()] = Field(None, gt=0)
    """learning rate of the head; lr if not set"""
    # What the loss itself learns is part of the method.
    loss_lr: Annotated[float | None, Key(compared=False)] = Field(None, gt=0)
    """learning rate of the loss's learned weights; lr if not set"""
    weight_decay: Annotated[float, Key(condition="weight_decay")] = Field(1e-4, ge=0)
    """weight decay of backbone and head"""
    decay_vectors: Annotated[bool, Key(hashed="when set")] = True
    """whether biases and the scales of norm layers decay too"""
    layer_decay: Annotated[float | None, Key(hashed="when set", active_when=NOT_FROZEN)] = Field(
        None, gt=0, le=1
    )
    """factor on the learning rate from each layer of the backbone to the layer before it"""
    loss_weight_decay: Annotated[float, Key(hashed="when set", compared=False)] = Field(0.0, ge=0)
    """weight decay of the loss's learned weights, except those it never decays"""
    momentum: Annotated[float, Key(active_when=(when("optim.name", "rmsprop", "sgd"),))] = Field(
        0.9, ge=0, lt=1
    )
    """momentum of the optimizer"""
    schedule: Annotated[
        Literal["constant", "step", "cosine", "one-cycle"], Key(condition="schedule")
    ] = "constant"
    """schedule of the learning rate"""
    step_size: Annotated[int, Key(active_when=STEPPED)] = Field(10, ge=1)
    """epochs between two steps of the schedule"""
    gamma: Annotated[float, Key(active_when=STEPPED)] = Field(0.1, gt=0)
    """factor of one step of the schedule"""
    warmup_epochs: Annotated[int, Key(active_when=NOT_FROZEN)] = Field(0, ge=0)
    """first epochs, in which the backbone is not trained"""
    warmup_steps: Annotated[
        int,
        Key(
            hashed="when set",
            excludes=(
                Rule(when("optim.schedule", "one-cycle"), why="that has a warm-up of its own"),
            ),
        ),
    ] = Field(0, ge=0)
    """first steps, in which the learning rate grows linearly to its full value"""
    clip_value: Annotated[float | None, Key(excludes=(Rule(unless("optim.clip_norm", None)),))] = (
        Field(None, gt=0)
    )
    """largest absolute value of an element of a gradient"""
    clip_norm: Annotated[float | None, Key()] = Field(None, gt=0)
    """largest norm of the gradient"""


class TrainConfig(Section):
    """Length of training, devices, precision, validation and logging."""

    epochs: Annotated[int, Key(condition="epochs")] = Field(10, ge=0)
    """passes of the sampler; 0: the untrained network is tested"""
    batches_per_epoch: Annotated[int | None, Key(condition="steps")] = Field(None, ge=1)
    """batches of an epoch; the sampler's own number if not set"""
    validate_every: Annotated[int, Key(active_when=VALIDATED)] = Field(1, ge=1)
    """epochs between validations"""
    patience: Annotated[
        int | None,
        Key(active_when=VALIDATED, excludes=(Rule(unless("train.patience_epochs", None)),)),
    ] = Field(None, ge=1)
    """validations in a row without a gain before training ends"""
    patience_epochs: Annotated[int | None, Key(hashed="when set", active_when=VALIDATED)] = Field(
        None, ge=1
    )
    """training ends when the best epoch is more than this many back"""
    metric: Annotated[str, Key(active_when=VALIDATED, baselines="values", of_study=True)] = "map@r"
    """metric that chooses the epoch, on validation classes"""
    precision: Annotated[Literal["32-true", "bf16-mixed", "16-mixed"], Key(baselines="values")] = (
        "32-true"
    )
    """precision of the network in training and validation; tests are in full precision"""
    matmul_precision: Annotated[Literal["highest", "high", "medium"], Key(hashed="when set")] = (
        "highest"
    )
    """precision of float32 matrix products; high: TensorFloat-32, where the device has it"""
    device: Annotated[str, Key(compared=False, baselines="values")] = "auto"
    """cpu, cuda, mps, or auto: the best that there is"""
    # Devices and nodes share one batch: the outcome does not depend on how many there are.
    devices: Annotated[int, Key(hashed="never", compared=False, short=True)] = Field(1, ge=1)
    """processes on this machine, one per device"""
    nodes: Annotated[int, Key(hashed="never", compared=False, short=True)] = Field(1, ge=1)
    """machines"""
    accumulate: Annotated[
        int,
        Key(
            hashed="when set",
            excludes=(
                Rule(when("mix.where", "feature"), why="choose mix.where=embed or mix.where=input"),
            ),
        ),
    ] = Field(1, ge=1)
    """chunks in which a batch is processed, to save memory; pairs span all chunks"""
    channels_last: Annotated[bool, Key(compared=False)] = True
    """memory layout of images and feature maps"""
    compile: Annotated[bool, Key(compared=False, excludes=(WHOLE_NETWORK,))] = False
    """compile the network, or of a frozen one the head with its loss"""
    # Computes the same values twice.
    activation_checkpointing: Annotated[
        bool, Key(hashed="when set", compared=False, excludes=(WHOLE_NETWORK,))
    ] = False
    """recompute activations in the backward pass, to save memory"""
    ema: Annotated[float | None, Key(hashed="when set")] = Field(None, gt=0, lt=1)
    """decay of averaged weights, which are validated and tested"""
    loggers: Annotated[
        OneOrMore[Literal["tensorboard", "csv", "mlflow", "wandb"]],
        Key(hashed="never", compared=False),
    ] = ("tensorboard",)
    """where metrics of training are logged"""
    eval_batch_size: Annotated[int, Key(hashed="never", compared=False, baselines="way")] = Field(
        256, ge=1
    )
    """images of a batch in validation and test"""
    # Batches are the same, whoever makes them.
    workers: Annotated[int | None, Key(hashed="never", compared=False)] = Field(None, ge=0)
    """threads that read images, 0: that of the training; if not set, every core but 0 on a CPU"""
    prefetch: Annotated[int, Key(hashed="never", compared=False)] = Field(2, ge=1)
    """batches that are made ahead of the network"""
    checkpoint_seconds: Annotated[float, Key(hashed="never", compared=False)] = Field(60, ge=0)
    """seconds between checkpoints inside an epoch"""


class ProtocolConfig(Section):
    """The classes for training, validation and test (docs/training.md)."""

    name: Annotated[
        Literal["paper", "fixed-validation", "cross-validation", "all"], Key(condition="protocol")
    ] = "fixed-validation"
    """which classes validate; docs/training.md"""
    ratio: Annotated[
        float, Key(condition="protocol", active_when=(when("protocol.name", "fixed-validation"),))
    ] = Field(0.9, gt=0, lt=1)
    """share of the training classes that train"""
    folds: Annotated[int, Key(condition="protocol", active_when=CROSS_VALIDATED)] = Field(4, ge=2)
    """parts that the training classes are cut into"""
    fold: Annotated[int, Key(compared=False, of_study=True)] = Field(0, ge=0)
    """the part that validates, from 0"""
    order: Annotated[
        Literal["sequential", "random"],
        Key(
            condition="protocol",
            active_when=(*CROSS_VALIDATED, unless("data.name", *SPLIT_DATASETS)),
        ),
    ] = "random"
    """which classes form a fold, and which test where the data do not say: in order, or drawn"""
    seed: Annotated[int | None, Key(hashed="when set", compared=False, of_study=True)] = Field(
        None, ge=0
    )
    """seed that draws the classes; the run's if not set"""
    test: Annotated[bool, Key(compared=False)] = True
    """false: never read the test set (tuning trials)"""
    test_untrained: Annotated[bool, Key(hashed="never", compared=False)] = True
    """also test the network as it was before training"""
    metrics: Annotated[OneOrMore[str], Key(hashed="never", compared=False)] = Field(
        ("recall@1", "recall@2", "recall@4", "recall@8", "map@r")
    )
    """metrics of validation and test (docs/evaluation.md)"""


class RunConfig(Section):
    """Everything that determines the outcome of one run."""

    seed: Annotated[int, Key(compared=False, baselines="values", of_study=True)] = Field(
        0, ge=0, lt=2**32
    )
    """seed of all random numbers"""
    runs_dir: Annotated[Path, Key(hashed="never", compared=False, of_study=True)] = Path("runs")
    """folder that contains the folders of all runs"""
    data: Annotated[DataConfig, Key(baselines="values")] = DataConfig()
    model: Annotated[ModelConfig, Key()] = ModelConfig()
    loss: Annotated[PartConfig, Key(compared=False)] = PartConfig(name="multi-similarity")
    """the loss (`lookalike list losses`) and its arguments"""
    miner: Annotated[PartConfig | None, Key(compared=False)] = None
    """the miner (`lookalike list miners`) and its arguments"""
    mix: Annotated[MixConfig | None, Key(hashed="when set", compared=False)] = None
    memory: Annotated[MemoryConfig | None, Key(hashed="when set", compared=False)] = None
    sampler: Annotated[
        PartConfig,
        Key(compared=False, arguments={"batch_size": (Key(condition="batch_size"), BATCH_SIZE)}),
    ] = PartConfig.model_validate({"name": "spc", "batch_size": 128, "per_class": 4})
    """the batch sampler (`lookalike list samplers`) and its arguments"""
    optim: Annotated[OptimConfig, Key()] = OptimConfig()
    train: Annotated[TrainConfig, Key()] = TrainConfig()
    protocol: Annotated[ProtocolConfig, Key(baselines="values")] = ProtocolConfig()

    def identity(self) -> dict[str, Any]:
        """The values that the outcome depends on; the name of the run's folder hashes them."""
        return identity(self)
