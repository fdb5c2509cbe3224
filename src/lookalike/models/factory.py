"""A model from its name and weights, and what is known of it without training."""

import time
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from statistics import median

import torch
from torch import Tensor

from lookalike.errors import BadInput, did_you_mean
from lookalike.models.backbone import Backbone, takes
from lookalike.models.embedding import EmbeddingModel
from lookalike.models.head import OWN_POOLINGS, Head
from lookalike.models.hubs import HUBS, efficientnet_lite0_file
from lookalike.models.weights import content_hash, load_by_name, read_tensors
from lookalike.registry import NETWORKS, Entry

OWN = "backbone.network."
"""The prefix of the backbone's names in a checkpoint of an EmbeddingModel."""


names = NETWORKS.names  # any other network of timm or torchvision can be built too


def describe() -> list[Entry]:
    """The networks listed here.

    Returns:
        Each with its paper and a description.
    """
    return NETWORKS.entries()


def build(
    network: str,
    *,
    weights: str = "none",
    dim: int = 128,
    pooling: str = "avg",
    layer_norm: bool = False,
    normalize: bool = True,
    channels: int = 3,
    image_size: int | None = None,
) -> EmbeddingModel:
    """Build a backbone with a head.

    Args:
        network: A name of :func:`names`, any network of timm or else of torchvision (``timm:NAME``
            or ``torchvision:NAME`` to choose), or ``package.module:Class``.
        weights: ``none`` (random, by torch's seed), ``imagenet``, or the path of a file: the
            backbone's weights, or a checkpoint of a whole EmbeddingModel.
        dim: The size of the embedding; 0 keeps the pooled features.
        pooling: One of ``POOLINGS``.
        layer_norm: Whether a layer norm follows the pooling.
        normalize: Whether embeddings have length 1.
        channels: 3 for colour, 1 for grey images.
        image_size: The side of the images, for networks that are made for one; None: its own.

    Returns:
        The model.

    Raises:
        BadInput: There is no such network, the weights do not fit, or the network has no such
            pooling or cannot take images of that size.
    """
    backbone = _backbone(network, channels, weights == "imagenet", image_size)
    if pooling in OWN_POOLINGS:
        backbone.pool_by(pooling)
    head = Head(
        backbone.width, dim=dim, pooling=pooling, layer_norm=layer_norm, normalize=normalize
    )
    model = EmbeddingModel(backbone, head)
    if weights not in ("none", "imagenet"):
        tensors = read_tensors(Path(weights))
        if any(name.startswith(OWN) for name in tensors):
            load_by_name(model, tensors, f"'{weights}'", left_over=())
        else:
            _load_backbone(backbone, tensors, f"'{weights}'")
    if pooling == "gem":
        _refuse_negative_map(network, backbone, image_size)
    return model


def _load_backbone(backbone: Backbone, tensors: dict[str, Tensor], source: str) -> None:
    """Copy a file's tensors, if need be under the names and sizes of the network's library."""
    try:
        load_by_name(backbone.network, tensors, source)
    except BadInput:
        if backbone.converted is None:
            raise
        try:
            converted = backbone.converted(backbone.network, tensors)
        except (LookupError, AttributeError, TypeError, ValueError, RuntimeError):
            converted = tensors  # of no form that the library knows: the first refusal is clearer
        load_by_name(backbone.network, converted, source)


@torch.no_grad()
def _refuse_negative_map(name: str, backbone: Backbone, image_size: int | None) -> None:
    """Refuse GeM on a network whose map has negative values, which it would cut off."""
    side = image_size or (backbone.image_size or (224,))[0]
    noise = torch.randn(
        1, backbone.normalisation.channels, side, side, generator=torch.Generator().manual_seed(0)
    )
    training = backbone.training
    least = float(backbone.eval()(noise).min())
    backbone.train(training)
    if least < 0:
        raise BadInput(
            f"model.pooling = 'gem' needs a map without negative values, and that of {name!r} has "
            "them; choose another pooling, such as avg or max"
        )


def fingerprint(network: str, weights: str = "none") -> str:
    """The identity of the weights a run starts from: the content of a file, not its path.

    Args:
        network: The name of the network.
        weights: As for :func:`build`.

    Returns:
        A hash of the file, ``imagenet:NETWORK``, or ``random``.

    >>> fingerprint("small-cnn")
    'random'
    >>> fingerprint("resnet50", "imagenet")
    'imagenet:resnet50'
    """
    if weights == "none":
        return "random"
    if weights != "imagenet":
        return content_hash(Path(weights))
    if network == "efficientnet-lite0":
        return content_hash(efficientnet_lite0_file())
    return f"imagenet:{network}"


@cache
def require_weights(network: str, weights: str) -> None:
    """Refuse weights that cannot be had, before anything large is computed or written.

    Those of a hub are fetched into its cache.

    Args:
        network: As for :func:`build`.
        weights: As for :func:`build`.

    Raises:
        BadInput: There are none of that name.
        LookalikeError: They cannot be fetched.
    """
    if weights == "imagenet" and network != "efficientnet-lite0":
        with torch.random.fork_rng(devices=[]):
            _backbone(network, 3, True)
    elif weights != "none":
        fingerprint(network, weights)


@cache
def feature_width(network: str) -> int:
    """How many features a network has before its head; nothing is allocated.

    Args:
        network: As for :func:`build`.

    Returns:
        The channels of its last feature map.

    Raises:
        BadInput: There is no such network.

    >>> feature_width("small-cnn")
    128
    """
    with torch.random.fork_rng(devices=[]), torch.device("meta"):
        return _backbone(network, 3, False).width


@cache
def check_network(
    network: str, pooling: str, image_size: int | None, tested: tuple[int, ...] = ()
) -> None:
    """Refuse a network that cannot be pooled so or take such images, before data are read.

    Args:
        network: As for :func:`build`.
        pooling: As for :func:`build`.
        image_size: As for :func:`build`.
        tested: The sides of the images in a test, where they are not those of training.

    Raises:
        BadInput: There is no such network, or it cannot.
    """
    with torch.random.fork_rng(devices=[]):
        if pooling == "gem":  # whether a map has negative values is seen on a real one
            built = build(network, dim=0, pooling=pooling, image_size=image_size)
        elif pooling in OWN_POOLINGS or network not in names():
            with torch.device("meta"):
                built = build(network, dim=0, pooling=pooling, image_size=image_size)
        else:
            return

    def refuses(side: int) -> bool:
        channels = built.backbone.normalisation.channels
        return not takes(built.backbone, (channels, side, side))

    refused = [side for side in tested if refuses(side)]
    if refused and image_size is not None and not refuses(image_size):
        raise BadInput(
            f"model.network = {network!r} takes images of {image_size} pixels, but not of "
            f"{refused[0]}, as data.transform.test asks for; leave out its size and scales"
        )


REPEATS = 5


@dataclass(frozen=True)
class NetworkSize:
    """The size and speed of one network.

    Attributes:
        network: Its name.
        parameters: How many numbers it learns, without a head.
        features: The length of its pooled features.
        size: The side of the images, in pixels.
        images_per_second: Embedded in batches on this machine's processor, without decoding.
    """

    network: str
    parameters: int
    features: int
    size: int
    images_per_second: float


def measure(network: str, size: int = 224, batch: int = 8) -> NetworkSize:
    """Build a network with random weights and time its forward pass.

    Args:
        network: As for :func:`lookalike.models.build`.
        size: The side of the images; networks of one size only take theirs.
        batch: Images at a time.

    Returns:
        The median of some repeats, after one that does not count.

    >>> measure("small-cnn", size=32, batch=2).features
    128
    """
    model = build(network, dim=0).eval()
    own = model.backbone.image_size
    side = size if own is None else own[0]
    images = torch.rand(batch, model.normalisation.channels, side, side)
    seconds = []
    with torch.inference_mode():
        for _ in range(REPEATS + 1):
            begun = time.perf_counter()
            model(images)
            seconds.append(time.perf_counter() - begun)
    parameters = sum(one.numel() for one in model.backbone.parameters())
    return NetworkSize(network, parameters, model.dim, side, batch / median(seconds[1:]))


def _backbone(
    network: str, channels: int, pretrained: bool, image_size: int | None = None
) -> Backbone:
    hub, _, name = network.rpartition(":")
    if hub in HUBS and name not in HUBS[hub].names():
        hint = did_you_mean(name, HUBS[hub].names())
        raise BadInput(f"there is no network '{name}' in {hub}; {hint}")
    if hub not in HUBS and (hub or name in names()):
        options = {"pretrained": True} if pretrained else {}
        backbone = NETWORKS.create(network, channels=channels, **options)
        if not isinstance(backbone, Backbone):
            raise BadInput(f"the network '{network}' must return a lookalike.models.Backbone")
        return backbone
    for place in [HUBS[hub]] if hub else HUBS.values():
        if name in place.names():
            return place.build(name, channels, pretrained, image_size)
    known = [*names(), *(other for place in HUBS.values() for other in place.names())]
    hint = did_you_mean(network, get_close_matches(network, known) or names())
    raise BadInput(f"there is no network '{network}' here, in timm or in torchvision; {hint}")
