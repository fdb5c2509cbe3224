"""The transforms of a run: those of its configuration, or those its network was published with."""

import math
from functools import cache
from typing import Any

import torch

from lookalike import data
from lookalike.config import TransformConfig
from lookalike.data import Preset
from lookalike.data.presets import NETWORK, preset_name
from lookalike.data.transforms import Photo
from lookalike.errors import BadInput
from lookalike.models.factory import build
from lookalike.models.hubs import torchvision_names

__all__ = ["preset_of", "published_transform", "transform_as_keys"]


def preset_of(transform: str | TransformConfig, network: str) -> Preset:
    """The transforms of a configuration; ``network`` means those of this network.

    Args:
        transform: The value of ``data.transform``.
        network: The value of ``model.network``.

    Returns:
        The transforms.

    Raises:
        BadInput: There are none of that name, or they do not fit.

    >>> preset_of("small", "resnet50").size
    128
    """
    own = published_transform(network) if preset_name(transform) == NETWORK else None
    return data.preset(transform, own)


def transform_as_keys(transform: str | TransformConfig, network: str) -> TransformConfig:
    """How images are shown to a network in tests, without a name of code to import.

    Args:
        transform: The value of ``data.transform``.
        network: The value of ``model.network``.

    Returns:
        The sizes and views as keys.
    """
    preset = preset_of(transform, network)
    given = TransformConfig() if isinstance(transform, str) else transform
    keys = {"preset": None, "size": preset.size, "resize": preset.resize, "crop": "centre"}
    return given.model_copy(update=keys)


@cache
def published_transform(network: str) -> Photo:
    """Size, crop and interpolation with which timm or torchvision publishes a network.

    Training uses random-resized crops of that size, and flips. Mean and standard deviation are the
    network's own anyway.

    Args:
        network: The name of the network.

    Returns:
        The transforms.

    Raises:
        BadInput: The network is neither of timm nor of torchvision.
    """
    with torch.random.fork_rng(devices=[]), torch.device("meta"):
        built: Any = build(network, dim=0).backbone.network
    if hasattr(built, "pretrained_cfg"):
        size, resize, interpolation = _of_timm(network, built)
    elif network.removeprefix("torchvision:") in torchvision_names():
        size, resize, interpolation = _of_torchvision(network.removeprefix("torchvision:"))
    else:
        raise BadInput(
            f"data.transform=network: the network '{network}' is published without transforms; "
            "name a preset"
        )
    return Photo(NETWORK, resize, size, f"of {network}", interpolation=interpolation)


def _of_timm(network: str, built: Any) -> tuple[int, int | tuple[int, int], str]:
    """Crop, stored size and interpolation of timm's data configuration."""
    from timm import data as timm_data

    library: Any = timm_data  # untyped
    config: dict[str, Any] = library.resolve_data_config({}, model=built)
    _, height, width = config["input_size"]
    if height != width:
        raise BadInput(
            f"data.transform=network: '{network}' takes images of {height} x {width}, and crops "
            "are squares; name a preset"
        )
    side = math.floor(height / config["crop_pct"])
    resize = (side, side) if config["crop_mode"] == "squash" else side
    return height, resize, _known(config["interpolation"])


def _of_torchvision(name: str) -> tuple[int, int, str]:
    """Crop, stored size and interpolation of torchvision's first published weights."""
    from torchvision import models as torchvision_models

    published = torchvision_models.get_model_weights(name)
    transforms = getattr(published, "IMAGENET1K_V1", published.DEFAULT).transforms()
    return (
        transforms.crop_size[0],
        transforms.resize_size[0],
        _known(transforms.interpolation.value),
    )


def _known(interpolation: str) -> str:
    return "bilinear" if interpolation == "bilinear" else "bicubic"
