"""A network as a backbone: images in, one feature map out, whatever its own output layout."""

import copy
from collections.abc import Callable, Mapping
from typing import NamedTuple

import torch
from torch import Tensor, nn

from lookalike.data.transforms import Normalisation
from lookalike.errors import BadInput, LookalikeError

__all__ = [
    "Backbone",
    "OwnPooling",
    "first_token",
    "fit_channels",
    "normalisation_for",
    "replace_first_convolution",
    "takes",
]


def normalisation_for(
    channels: int,
    mean: tuple[float, ...] = Normalisation.mean,
    std: tuple[float, ...] = Normalisation.std,
    *,
    scale: float = 1 / 255,
    bgr: bool = False,
) -> Normalisation:
    """The normalisation of a network; for other than 3 channels, the average of the three."""
    if channels != len(mean):
        mean = (sum(mean) / len(mean),) * channels
        std = (sum(std) / len(std),) * channels
        bgr = False
    return Normalisation(mean=mean, std=std, scale=scale, bgr=bgr, channels=channels)


def fit_channels(kernel: Tensor, channels: int) -> Tensor:
    """A first kernel [out, in, h, w] for another number of input channels.

    The sum over the old channels is distributed evenly, so that a grey image gives the output of
    the same image repeated in every channel.

    >>> import torch
    >>> fit_channels(torch.ones(1, 3, 1, 1), 1).flatten().tolist()
    [3.0]
    """
    if kernel.shape[1] == channels:
        return kernel
    summed = kernel.sum(1, keepdim=True) / channels
    return summed.expand(-1, channels, -1, -1).contiguous()


def _call(network: nn.Module, images: Tensor) -> Tensor:
    found: Tensor = network(images)
    return found


class OwnPooling(NamedTuple):
    """A pooling that needs more of a network than its map: the class token, or layers of its own.

    Attributes:
        pool: From the network and its output to vectors [B, width].
        layers: The layers of the network that only this pooling uses.
    """

    pool: Callable[[nn.Module, Tensor], Tensor]
    layers: tuple[str, ...] = ()


def first_token(_network: nn.Module, tokens: Tensor) -> Tensor:
    """The class token of tokens [B, N, C], where it is the first."""
    return tokens[:, 0]


class Backbone(nn.Module):
    """Images [B, channels, H, W] -> feature map [B, width, h, w].

    The network may return the map as [B, C, h, w], as [B, h, w, C] (Swin), or as tokens [B, N, C]
    (vision transformers). With a pooling of its own (:meth:`pool_by`) the map has one place.

    Args:
        network: The network.
        width: The channels of its last feature map.
        normalisation: The normalisation of its input.
        prefix_tokens: Tokens before the patch tokens (class token, registers), which are dropped.
        image_size: The only size that the network accepts; None: any.
        run: Computes the map, where ``network(images)`` does not.
        steps: The module of each node of a traced network.
        poolings: What the network can be pooled by besides its map, by name.
        converted: Turns the tensors of a file with other names or sizes into the network's own.
    """

    def __init__(
        self,
        network: nn.Module,
        *,
        width: int,
        normalisation: Normalisation,
        prefix_tokens: int = 0,
        image_size: tuple[int, int] | None = None,
        run: Callable[[nn.Module, Tensor], Tensor] = _call,
        steps: Mapping[str, str] | None = None,
        poolings: Mapping[str, OwnPooling] | None = None,
        converted: Callable[[nn.Module, dict[str, Tensor]], dict[str, Tensor]] | None = None,
    ) -> None:
        super().__init__()
        self.network = network
        self.width = width
        self.normalisation = normalisation
        self.prefix_tokens = prefix_tokens
        self.image_size = image_size
        self.run = run
        self.steps = steps or {}
        self.poolings = poolings or {}
        self.converted = converted
        self.own_pooling: OwnPooling | None = None

    def pool_by(self, name: str) -> None:
        """Give one vector per image as a map of one place, by a pooling of the network itself.

        Args:
            name: ``cls`` (the class token) or ``map`` (the network's own attention pooling).

        Raises:
            BadInput: The network has no such pooling.
        """
        if name not in self.poolings:
            needed = {"cls": "a class token", "map": "an attention pooling of its own"}[name]
            raise BadInput(
                f"model.pooling = {name!r} needs a network with {needed}, which this one has not; "
                f"it can be pooled by {', '.join(['avg', 'max', *self.poolings])}"
            )
        self.own_pooling = self.poolings[name]
        for layer in self.own_pooling.layers:
            self.network.get_submodule(layer).requires_grad_(True)

    def forward(self, images: Tensor) -> Tensor:
        """The feature map before pooling."""
        if self.image_size not in (None, size := tuple(images.shape[2:])):
            raise BadInput(
                f"this network takes images of {self.image_size} pixels only, not {size}; "
                "choose other transforms or another network"
            )
        found = self.run(self.network, images)
        if self.own_pooling is not None:
            return self.own_pooling.pool(self.network, found)[:, :, None, None]
        if found.dim() == 3:
            return self._as_map(found, images)
        if found.dim() == 4 and found.shape[1] == self.width:
            return found
        if found.dim() == 4 and found.shape[3] == self.width:
            return found.permute(0, 3, 1, 2)
        raise LookalikeError(
            f"the network gives a tensor of shape {list(found.shape)}; "
            f"a feature map of {self.width} channels was expected"
        )

    def _as_map(self, tokens: Tensor, images: Tensor) -> Tensor:
        only_prefix = tokens.shape[1] <= self.prefix_tokens  # the network has pooled itself
        patches = tokens[:, 0 if only_prefix else self.prefix_tokens :].transpose(1, 2)
        # whole numbers, also where an exporter traces shapes as tensors
        count, height, width = int(patches.shape[2]), int(images.shape[2]), int(images.shape[3])
        rows = max(1, round((count * height / width) ** 0.5))
        if count % rows:
            rows = 1  # tokens were merged or dropped: there is no grid
        return patches.reshape(*patches.shape[:2], rows, count // rows)


def takes(network: nn.Module, shape: tuple[int, ...]) -> bool:
    """Whether a network accepts images of a shape; a copy without data is tried."""
    try:
        copy.deepcopy(network).to("meta").eval()(torch.empty(1, *shape, device="meta"))
    except (BadInput, AssertionError, RuntimeError, ValueError, IndexError):
        return False
    return True


def first_convolution(network: nn.Module) -> tuple[str, nn.Conv2d | None]:
    """The convolution that reads the images, with its name."""
    found = ((name, one) for name, one in network.named_modules() if isinstance(one, nn.Conv2d))
    return next(found, ("", None))


def replace_first_convolution(network: nn.Module, channels: int) -> None:
    """Make ``network`` take ``channels`` input channels, in place."""
    _, first = first_convolution(network)
    if first is not None and first.in_channels != channels:
        first.weight = nn.Parameter(fit_channels(first.weight.detach(), channels))
        first.in_channels = channels
