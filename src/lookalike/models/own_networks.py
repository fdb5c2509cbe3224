"""Networks that neither timm nor torchvision has: BN-Inception and a small one for small images.

BN-Inception is the network of most metric-learning papers. Its weights are the widely used
conversion of the Caffe model, ``bn_inception-52deb4733.pth``. The names of the layers are that
file's: every convolution ``NAME`` has its batch norm ``NAME_bn`` beside it, all in one flat
network. So the layers belong to the network, and an inception module is a value that names its
layers and how they are joined.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from lookalike.errors import BadInput
from lookalike.models.backbone import Backbone, normalisation_for
from lookalike.registry import NETWORKS

WEIGHTS_ADDRESS = "http://data.lip6.fr/cadene/pretrainedmodels/bn_inception-52deb4733.pth"
WEIGHTS_SHA256 = "52deb473314542a5c2f87e9e6f26f4ca42fe863d15f986414dbae8c2dfdd2353"
"""The file of ImageNet weights that the papers start from; its name has the start of its hash."""

Layer = Callable[[str, Tensor], Tensor]
"""Runs the convolution of that name, its batch norm and a ReLU."""


@dataclass(frozen=True)
class Inception:
    """Side by side: 1x1; 3x3; twice 3x3; pooling with a 1x1 projection. Each 3x3 is reduced first.

    Without 1x1 and projection (0 channels) the module halves the map.
    """

    name: str
    single: int
    triple: tuple[int, int]
    double: tuple[int, int]
    projection: int
    pooling: str = "avg"

    @property
    def halves(self) -> bool:
        """Whether the map shrinks by two."""
        return not self.projection

    def width(self, inside: int) -> int:
        """The channels of the joined branches."""
        return self.single + self.triple[1] + self.double[1] + (self.projection or inside)

    def convolutions(self, inside: int) -> Iterator[tuple[str, int, int, int, int]]:
        """Name, channels in and out, kernel and stride of every layer, in the order of the file."""
        stride = 2 if self.halves else 1
        (reduced, wide), (reduced_twice, wide_twice) = self.triple, self.double
        if self.single:
            yield f"{self.name}_1x1", inside, self.single, 1, 1
        yield f"{self.name}_3x3_reduce", inside, reduced, 1, 1
        yield f"{self.name}_3x3", reduced, wide, 3, stride
        yield f"{self.name}_double_3x3_reduce", inside, reduced_twice, 1, 1
        yield f"{self.name}_double_3x3_1", reduced_twice, wide_twice, 3, 1
        yield f"{self.name}_double_3x3_2", wide_twice, wide_twice, 3, stride
        if self.projection:
            yield f"{self.name}_pool_proj", inside, self.projection, 1, 1

    def run(self, layer: Layer, features: Tensor) -> Tensor:
        """All branches of ``features``, joined."""
        triple = layer(f"{self.name}_3x3", layer(f"{self.name}_3x3_reduce", features))
        double = layer(f"{self.name}_double_3x3_reduce", features)
        double = layer(f"{self.name}_double_3x3_1", double)
        double = layer(f"{self.name}_double_3x3_2", double)
        if self.halves:
            return torch.cat([triple, double, shrink(features)], 1)
        pool = functional.avg_pool2d if self.pooling == "avg" else functional.max_pool2d
        pooled = pool(features, 3, stride=1, padding=1)
        single = layer(f"{self.name}_1x1", features)
        return torch.cat([single, triple, double, layer(f"{self.name}_pool_proj", pooled)], 1)


def shrink(features: Tensor) -> Tensor:
    """Caffe's pooling by two: windows that hang over the edge count (``ceil_mode``)."""
    return functional.max_pool2d(features, 3, stride=2, ceil_mode=True)


# fmt: off
MODULES = (
    #         name            1x1  3x3         double 3x3  projection
    Inception("inception_3a",  64, ( 64,  64), ( 64,  96),  32),
    Inception("inception_3b",  64, ( 64,  96), ( 64,  96),  64),
    Inception("inception_3c",   0, (128, 160), ( 64,  96),   0),
    Inception("inception_4a", 224, ( 64,  96), ( 96, 128), 128),
    Inception("inception_4b", 192, ( 96, 128), ( 96, 128), 128),
    Inception("inception_4c", 160, (128, 160), (128, 160), 128),
    Inception("inception_4d",  96, (128, 192), (160, 192), 128),
    Inception("inception_4e",   0, (128, 192), (192, 256),   0),
    Inception("inception_5a", 352, (192, 320), (160, 224), 128),
    Inception("inception_5b", 352, (192, 320), (192, 224), 128, pooling="max"),
)
# fmt: on


class BNInception(nn.Module):
    """Inception with batch norm (Ioffe and Szegedy, ICML 2015): images -> map of 1024 channels.

    Args:
        channels: 3 for colour, 1 for grey images.
        num_classes: Adds the file's classifier ``last_linear``, which the map does not use.
    """

    width = 1024

    def __init__(self, channels: int = 3, num_classes: int = 0) -> None:
        super().__init__()
        self._add("conv1_7x7_s2", channels, 64, 7, 2)
        self._add("conv2_3x3_reduce", 64, 64, 1, 1)
        self._add("conv2_3x3", 64, 192, 3, 1)
        inside = 192
        for module in MODULES:
            for convolution in module.convolutions(inside):
                self._add(*convolution)
            self.add_module(module.name, nn.Identity())  # gives its output a name
            inside = module.width(inside)
        if num_classes:
            self.last_linear = nn.Linear(inside, num_classes)

    def _add(self, name: str, inside: int, outside: int, kernel: int, stride: int) -> None:
        self.add_module(name, nn.Conv2d(inside, outside, kernel, stride, padding=kernel // 2))
        self.add_module(f"{name}_bn", nn.BatchNorm2d(outside))

    def _layer(self, name: str, features: Tensor) -> Tensor:
        convolved = getattr(self, name)(features)
        return functional.relu(getattr(self, f"{name}_bn")(convolved), inplace=True)

    def forward(self, images: Tensor) -> Tensor:
        """[B, channels, H, W] -> [B, 1024, H/32, W/32], rounded up."""
        features = shrink(self._layer("conv1_7x7_s2", images))
        features = self._layer("conv2_3x3", self._layer("conv2_3x3_reduce", features))
        features = shrink(features)
        for module in MODULES:
            features = getattr(self, module.name)(module.run(self._layer, features))
        return features


@NETWORKS.register("bn-inception", paper="Ioffe and Szegedy, ICML 2015")
def bn_inception(channels: int = 3, pretrained: bool = False) -> Backbone:
    """Inception with batch norm, the network of most papers; BGR input, weights from a file."""
    if pretrained:
        raise BadInput(
            "the ImageNet weights of 'bn-inception' are on no hub; download "
            f"{WEIGHTS_ADDRESS} (SHA-256 {WEIGHTS_SHA256}) and set model.weights to its path"
        )
    return Backbone(
        BNInception(channels),
        width=BNInception.width,
        normalisation=normalisation_for(
            channels, (104.0, 117.0, 128.0), (1.0, 1.0, 1.0), scale=1.0, bgr=True
        ),
    )


SMALL_CNN_WIDTHS = (16, 32, 64, 128)


@NETWORKS.register("small-cnn")
def small_cnn(channels: int = 3, pretrained: bool = False) -> Backbone:
    """Four 3x3 convolutions, 16 to 128 channels, for images of about 32 pixels; no weights.

    Args:
        channels: 3 for colour, 1 for grey images.
        pretrained: Must be False: there are no weights.

    Returns:
        The backbone.
    """
    if pretrained:
        raise BadInput("'small-cnn' has no ImageNet weights; set model.weights=none or to a file")
    blocks: list[nn.Module] = []
    inside = channels
    for outside in SMALL_CNN_WIDTHS:
        if blocks:
            blocks.append(nn.MaxPool2d(2))
        convolution = nn.Conv2d(inside, outside, 3, padding=1, bias=False)
        blocks.append(nn.Sequential(convolution, nn.BatchNorm2d(outside), nn.ReLU(inplace=True)))
        inside = outside
    half = (0.5,) * channels
    return Backbone(
        nn.Sequential(*blocks),
        width=inside,
        normalisation=normalisation_for(channels, half, half),
    )
