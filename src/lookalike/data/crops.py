"""Crops of stored pixels: their random sides, and the crops resized to the size of a batch."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

from lookalike.data.image_random import ImageRandom

__all__ = ["crop_views", "random_sides"]


def random_sides(
    shapes: Tensor,
    scale: tuple[float, float],
    ratio: tuple[float, float],
    random: ImageRandom,
    tries: int = 10,
) -> tuple[Tensor, Tensor]:
    """Height and width of a random crop for each image: uniform area, log-uniform aspect ratio.

    The first of ten draws that fits is taken; where none does, the largest shape of allowed
    ratio, marked in the second value to be centred (as torchvision's RandomResizedCrop does).
    """
    low, high = ratio
    area = shapes.prod(1, keepdim=True) * (scale[0] + (scale[1] - scale[0]) * random.uniform(tries))
    ratios = torch.exp(math.log(low) + (math.log(high) - math.log(low)) * random.uniform(tries))
    heights, widths = (area / ratios).sqrt().round(), (area * ratios).sqrt().round()
    height, width = shapes[:, :1], shapes[:, 1:]
    fits = (heights >= 1) & (heights <= height) & (widths >= 1) & (widths <= width)
    first = fits.to(torch.uint8).argmax(1, keepdim=True)
    drawn = torch.cat([heights.gather(1, first), widths.gather(1, first)], 1).long()
    widest = torch.minimum(width, (height * high).round().long()).clamp(min=1)
    highest = torch.minimum(height, (width / low).round().long()).clamp(min=1)
    fitted = fits.any(1)
    return torch.where(fitted[:, None], drawn, torch.cat([highest, widest], 1)), ~fitted


def crop_views(
    pixels: Sequence[Tensor],
    corners: Tensor,
    sides: Tensor,
    size: int,
    mirrored: Sequence[bool],
    interpolation: str = "bilinear",
) -> Tensor:
    """The crops of a batch, each resized to ``size`` x ``size``, as uint8 [B, C, S, S]."""
    channels = pixels[0].shape[0]
    batch = torch.empty(
        (len(pixels), channels, size, size), dtype=torch.uint8, memory_format=torch.channels_last
    )
    boxes = torch.cat([corners, sides], 1).tolist()
    for target, image, mirror, (top, left, height, width) in zip(
        batch, pixels, mirrored, boxes, strict=True
    ):
        view = image[:, top : top + height, left : left + width]
        if (height, width) != (size, size):
            view = functional.interpolate(
                view[None], (size, size), mode=interpolation, antialias=True
            )[0]
        target.copy_(view.flip(2) if mirror else view)
    return batch
