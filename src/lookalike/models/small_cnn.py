"""A small convolutional network for small images such as the glyphs."""

from torch import nn

from lookalike.errors import BadInput
from lookalike.models.backbone import Backbone, normalisation_for
from lookalike.registry import NETWORKS

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
