"""How large a network is, and how fast on this machine."""

import time
from dataclasses import dataclass
from statistics import median

import torch

from lookalike.models.factory import build

__all__ = ["NetworkSize", "measure"]

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
