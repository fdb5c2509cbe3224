"""Random erasing (Zhong et al., AAAI 2020), on pixels."""

import math

import torch
from torch import Tensor

from lookalike.config import ErasingConfig
from lookalike.data.image_random import ImageRandom

__all__ = ["apply_erasing"]

FILL = (124, 116, 104)
"""The mean colour of ImageNet: about 0 after normalisation."""
TRIES = 10


def apply_erasing(batch: Tensor, given: ErasingConfig, random: ImageRandom) -> None:
    """Fill a random rectangle of some images of a batch, in place.

    Area and aspect ratio are drawn as by torchvision's RandomErasing: the first of ten draws that
    is smaller than the image; without one, the image stays as it is.

    Args:
        batch: Pixels, uint8 [B, C, H, W].
        given: How often, and which rectangles.
        random: Where chance comes from.
    """
    count, channels, height, width = batch.shape
    chance, area, ratio = random.uniform(), random.uniform(TRIES), random.uniform(TRIES)
    places = random.uniform(2)
    area = height * width * (given.scale[0] + (given.scale[1] - given.scale[0]) * area)
    low, high = (math.log(bound) for bound in given.ratio)
    ratio = torch.exp(low + (high - low) * ratio)
    heights, widths = (area * ratio).sqrt().round().long(), (area / ratio).sqrt().round().long()
    fits = (heights < height) & (widths < width)
    fill = batch.new_tensor(FILL if channels == 3 else [round(sum(FILL) / 3)]).view(-1, 1, 1)
    for n in range(count):
        if chance[n] < given.probability and fits[n].any():
            first = int(fits[n].to(torch.uint8).argmax())
            high_, wide = int(heights[n, first]), int(widths[n, first])
            top = int(places[n, 0] * (height - high_ + 1))
            left = int(places[n, 1] * (width - wide + 1))
            batch[n, :, top : top + high_, left : left + wide] = fill
