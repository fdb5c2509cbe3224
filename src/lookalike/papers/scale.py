"""Small scale: the experiment of a paper on what a laptop has.

What the experiment varies stays as the paper has it: loss, miner, sampler, batch size, embedding
size, mixing, weight decay, classes. What changes is the network (EfficientNet-Lite0, mostly
frozen), the images (built-in glyphs, or the user's photographs at 128 px), the optimizer's rates
and the length of training, which are those of ``recipes/studies/laptop-reality-check.yaml``.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from lookalike.config import OptimConfig, RunConfig, parse
from lookalike.config.loading import merge, nested
from lookalike.data.presets import preset_name
from lookalike.errors import BadInput, did_you_mean
from lookalike.losses import ProxyLoss
from lookalike.papers.catalogue import Entry
from lookalike.registry import DATASETS, LOSSES

__all__ = ["Laptop", "Scale", "laptop_for", "small"]

Scale = Literal["paper", "small"]
Learns = Literal["head", "last-stage", "whole", "from-scratch"]

NETWORK = "efficientnet-lite0"
LAST_STAGE = "blocks.5"
"""The module of the network after which everything learns."""
STAND_INS = {
    "resnet50": "resnet10t",
    "bn-inception": "small-cnn",
    "googlenet": "mobilenetv3_small_050",
}
"""Networks of a few million parameters at most, trained from random weights on glyphs."""
MANY_CLASSES = ("sop", "inshop")
"""Data sets of many classes with few images each, as glyphs are."""
CROPS = {
    "proxy-anchor": "small",
    "simple-224": "small-plain",
    "large": "small-160",
    "colour": "small-colour",
}
"""Crops of 128 px in place of those of 224."""
RATES: dict[tuple[bool, Learns], float] = {
    (False, "head"): 3e-3,
    (False, "whole"): 1e-3,
    (False, "from-scratch"): 2e-3,
    (True, "head"): 1e-3,
    (True, "last-stage"): 3e-4,
    (True, "whole"): 3e-4,
}
"""By whether the images are photographs, and what learns.

Of heads as in the laptop's reality check, of whole networks as in recipe:glyphs and the fine-tuning
study, chosen on validation classes; of pretrained networks on glyphs, and of last stages, untuned.
"""
UNUSED = ("step_size", "gamma", "momentum")
"""Of schedules and optimizers that small scale does not use."""
EPOCHS = {False: 4, True: 8}
BATCHES = 100


@dataclass(frozen=True)
class Laptop:
    """The images at hand."""

    name: str = "glyphs"
    root: str | None = None

    @property
    def photographs(self) -> bool:
        """Whether they are photographs."""
        return self.name != "glyphs"


def laptop_for(entry: Entry, overrides: Sequence[str]) -> Laptop:
    """The images that the user's settings name, or the built-in ones.

    Args:
        entry: What is reproduced.
        overrides: ``key=value`` settings; ``data.name`` and ``data.root`` count.

    Returns:
        The images.

    Raises:
        BadInput: The data set is unknown or has no root, or the entry needs photographs.
    """
    given = nested(s for s in overrides if s.startswith("data.")).get("data", {})
    name, root = str(given.get("name", "glyphs")), given.get("root")
    if name not in DATASETS:
        raise BadInput(f"there is no data set '{name}'; {did_you_mean(name, DATASETS.names())}")
    if name == "glyphs" and root is not None:
        raise BadInput("--scale small runs on built-in glyphs; with data.root, give data.name too")
    laptop = Laptop(name, None if root is None else str(root))
    if laptop.photographs and root is None:
        raise BadInput(f"'{entry.name}' with data.name={name} needs data.root=FOLDER")
    if entry.photographs and not laptop.photographs:
        raise BadInput(
            f"'{entry.name}' needs photographs at small scale, too: data.name=cub data.root=FOLDER"
        )
    return laptop


def small(config: RunConfig, entry: Entry, laptop: Laptop) -> RunConfig:
    """A paper's run as a laptop's.

    Args:
        config: The recipe's configuration.
        entry: What is reproduced; what it varies is kept.
        laptop: The images.

    Returns:
        The configuration at small scale.
    """
    images = _images(config, entry, laptop)
    photographs = images["name"] != "glyphs"
    learns = _learns(entry, photographs)
    rate = RATES[photographs, learns]
    values = config.model_dump(mode="json")
    loss_lr = config.optim.loss_lr
    if issubclass(_loss_class(config), ProxyLoss):
        loss_lr = max(rate, loss_lr or 0.0)
    changes = {
        "data": images,
        "model": _model(config, learns),
        "optim": {
            "name": "adamw",
            "lr": rate,
            "head_lr": None,
            "loss_lr": loss_lr,
            "weight_decay": config.optim.weight_decay if "decay" in entry.axes else 1e-4,
            "schedule": "cosine",
            "warmup_epochs": 0,
            **{key: OptimConfig.model_fields[key].default for key in UNUSED},
        },
        "train": {
            "epochs": min(config.train.epochs, EPOCHS[photographs]),
            "batches_per_epoch": BATCHES,
            "validate_every": 1,
            "patience": None,
            "patience_epochs": None,
            "eval_batch_size": 8192 if learns == "head" else 256,
            "device": "cpu",
        },
    }
    return parse(merge(values, changes), entry.name)


def _loss_class(config: RunConfig) -> type:
    built = LOSSES.find(config.loss.name).build
    return built if isinstance(built, type) else object


def _images(config: RunConfig, entry: Entry, laptop: Laptop) -> dict[str, Any]:
    """The user's images; where data sets are compared, glyphs for those of many classes."""
    if not laptop.photographs or ("dataset" in entry.axes and config.data.name in MANY_CLASSES):
        return {"name": "glyphs", "root": None, "transform": "glyphs"}
    crop = CROPS[preset_name(config.data.transform)] if "crop" in entry.axes else "small"
    return {"name": laptop.name, "root": laptop.root, "transform": crop}


def _learns(entry: Entry, photographs: bool) -> Learns:
    if "network" in entry.axes and not photographs:
        return "from-scratch"
    if entry.trained == "last-stage" and not photographs:
        return "whole"  # small images pass the whole network quickly
    return entry.trained


def _model(config: RunConfig, learns: Learns) -> dict[str, Any]:
    if learns == "from-scratch":
        return {
            "network": STAND_INS[config.model.network],
            "weights": "none",
            "freeze_bn_statistics": False,
            "freeze_bn_affine": False,
        }
    frozen = learns == "head"
    return {
        "network": NETWORK,
        "weights": "imagenet",
        "frozen": frozen,
        "frozen_until": LAST_STAGE if learns == "last-stage" else None,
        "head_init": "pca",
        "freeze_bn_statistics": not frozen,
        "freeze_bn_affine": not frozen,
    }
