"""Changes of the pixels of a batch, in place: RandAugment, colour jitter, random erasing."""

import math

import torch
from torch import Tensor

from lookalike.config import ColorJitterConfig, ErasingConfig, RandAugmentConfig
from lookalike.data.image_random import ImageRandom

__all__ = ["apply_erasing", "apply_jitter", "apply_rand_augment"]

LEVELS = 31
"""Magnitudes are 0 to 30."""
FILL = (124, 116, 104)
"""The mean colour of ImageNet: about 0 after normalisation."""
TRIES = 10


def apply_rand_augment(batch: Tensor, given: RandAugmentConfig, random: ImageRandom) -> None:
    """RandAugment (Cubuk et al., NeurIPS 2020): change each image by random operations, in place.

    The operations are torchvision's. Its class draws from torch's global generator, on which a
    batch must not depend.

    Args:
        batch: Pixels, uint8 [B, C, H, W] with 1 or 3 channels.
        given: How many operations, and how strong.
        random: Where chance comes from.
    """
    # Importing torchvision takes seconds.
    from torchvision.transforms import InterpolationMode
    from torchvision.transforms.autoaugment import RandAugment, _apply_op

    height, width = batch.shape[2:]
    space = RandAugment()._augmentation_space(LEVELS, (height, width))
    operations = [
        (name, float(levels[given.magnitude]) if levels.ndim else 0.0, signed)
        for name, (levels, signed) in space.items()
    ]
    chosen = random.integers(len(operations), given.num_ops).tolist()
    signs = (random.integers(2, given.num_ops) * 2 - 1).tolist()
    for image, numbers, directions in zip(batch, chosen, signs, strict=True):
        changed = image
        for number, sign in zip(numbers, directions, strict=True):
            name, magnitude, signed = operations[number]
            if signed:
                magnitude *= sign
            changed = _apply_op(changed, name, magnitude, InterpolationMode.NEAREST, fill=None)
        image.copy_(changed)


def apply_jitter(batch: Tensor, strength: ColorJitterConfig, random: ImageRandom) -> None:
    """Brightness, contrast, saturation times 1 +- strength; hue rotated by that share of a turn."""
    from lookalike.data.colour import recolour  # which imports numba

    greyed = random.uniform() < strength.grayscale
    strengths = [strength.brightness, strength.contrast, strength.saturation, strength.hue]
    factors = (random.uniform(4) * 2 - 1) * torch.tensor(strengths, dtype=torch.float64)
    recolour(batch, greyed, factors + torch.tensor([1, 1, 1, 0]))


def apply_erasing(batch: Tensor, given: ErasingConfig, random: ImageRandom) -> None:
    """Random erasing (Zhong et al., AAAI 2020): fill a rectangle of some images, in place.

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
