"""Small scale: the experiment of a paper on what a laptop has.

What the experiment varies stays as the paper has it: loss, miner, sampler, batch size, embedding
size, mixing, weight decay, classes. What changes is in ``papers/data/small.yaml``: the network
(EfficientNet-Lite0, mostly frozen), the images (built-in glyphs, or the user's photographs at
128 px), the optimizer's rates and the length of training.
"""

from collections.abc import Sequence
from copy import deepcopy
from functools import cache
from importlib.resources import files
from typing import Any, Literal, NamedTuple

import yaml

from lookalike.config import RunConfig, parse
from lookalike.config.loading import merge, nested
from lookalike.data.presets import preset_name
from lookalike.errors import BadInput, did_you_mean
from lookalike.losses import ProxyLoss
from lookalike.papers.catalogue import Entry
from lookalike.registry import DATASETS, LOSSES

Scale = Literal["paper", "small"]
UNUSED = ("step_size", "gamma", "momentum")
"""Of schedules and optimizers that small scale does not use."""


class Laptop(NamedTuple):
    """The images at hand."""

    name: str = "glyphs"
    root: str | None = None

    @property
    def photographs(self) -> bool:
        """Whether they are photographs."""
        return self.name != "glyphs"


@cache
def small_settings() -> dict[str, Any]:
    """What ``papers/data/small.yaml`` says.

    Returns:
        Settings by what learns and by kind of images, and names for what is shown.

    >>> small_settings()["titles"]["model.dim"]
    'Embedding size'
    """
    text = files("lookalike").joinpath("papers/data/small.yaml").read_text(encoding="utf-8")
    values: dict[str, Any] = yaml.safe_load(text)
    return values


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
    table = deepcopy(small_settings())
    # where data sets are compared, glyphs stand for those of many classes
    many = "dataset" in entry.axes and config.data.name in table["many_classes"]
    images = "photographs" if laptop.photographs and not many else "glyphs"
    learns: str = entry.trained
    if images == "glyphs" and "network" in entry.axes:
        learns = "from-scratch"
    elif images == "glyphs" and learns == "last-stage":
        learns = "whole"  # small images pass the whole network quickly
    changes = merge(merge(table["every"], table["images"][images]), table["learns"][learns])
    if images == "photographs":
        changes["data"] |= {"name": laptop.name, "root": laptop.root}
        if "crop" in entry.axes:
            changes["data"]["transform"] = table["crops"][preset_name(config.data.transform)]
    if learns == "from-scratch":
        changes["model"]["network"] = table["stand_ins"][config.model.network]
    rate = changes["optim"]["lr"] = table["rates"][images][learns]
    loss = LOSSES.find(config.loss.name).build
    if isinstance(loss, type) and issubclass(loss, ProxyLoss):
        changes["optim"]["loss_lr"] = max(rate, config.optim.loss_lr or 0.0)
    if "decay" in entry.axes:
        changes["optim"]["weight_decay"] = config.optim.weight_decay
    changes["train"]["epochs"] = min(config.train.epochs, changes["train"]["epochs"])
    values = config.model_dump(mode="json")
    values["optim"] = {key: one for key, one in values["optim"].items() if key not in UNUSED}
    return parse(merge(values, changes), entry.name)
