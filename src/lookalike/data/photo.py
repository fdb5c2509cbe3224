"""Transforms of photos: crop, flip, RandAugment, colour jitter, random erasing, in this order."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional

from lookalike.config import ColorJitterConfig, ErasingConfig, RandAugmentConfig
from lookalike.data.augmentation import apply_erasing, apply_jitter, apply_rand_augment
from lookalike.data.cache import Resize
from lookalike.data.image_random import ImageRandom
from lookalike.data.transforms import Preset

__all__ = ["Crop", "Photo"]

Crop = Literal["random-resized", "random", "centre", "none"]


@dataclass(frozen=True)
class Photo(Preset):
    """Photos: random crops and augmentation; tested on the centre crop.

    Attributes:
        size: The size of the images of a batch.
        crop: ``random-resized``: of random area and shape, resized (RandomResizedCrop);
            ``random``: a square of ``size`` pixels at a random place; ``centre``: the one in the
            middle; ``none``: the whole image, whatever its shape.
        scale: The area of a random-resized crop, as a share of the image's.
        ratio: Its width by its height.
        interpolation: How crops are resized.
        flip: The probability that an image is mirrored.
        color_jitter: The colour jitter.
        rand_augment: RandAugment.
        erasing: Random erasing.
        crop_resize: The size of stored images to which ``size`` belongs, where images are stored
            larger for the test; None: ``resize``.
        centre_size: The size of the centre crop in a test; None: ``size``.
        centre_resize: The size of stored images to which it belongs; None: ``resize``.
    """

    size: int
    crop: Crop = "random-resized"
    scale: tuple[float, float] = (0.08, 1.0)
    ratio: tuple[float, float] = (3 / 4, 4 / 3)
    interpolation: str = "bilinear"
    flip: float = 0.5
    color_jitter: ColorJitterConfig | None = None
    rand_augment: RandAugmentConfig | None = None
    erasing: ErasingConfig | None = None
    crop_resize: Resize = None
    centre_size: int | None = None
    centre_resize: Resize = None

    @property
    def test_size(self) -> int:
        """The side of the centre crop."""
        return self.centre_size or self.size

    def seen_part(self, height: int, width: int) -> tuple[float, float]:
        """Height and width of the centre crop, as fractions of an image's."""
        resize = self.centre_resize or self.resize
        if self.crop == "none" or resize is None:
            return 1.0, 1.0
        if isinstance(resize, tuple):
            return self.test_size / resize[0], self.test_size / resize[1]
        side = min(height, width) * self.test_size / resize
        return side / height, side / width

    def augment(self, pixels: Sequence[Tensor], random: ImageRandom) -> Tensor:
        """Random crops and flips, perhaps with other colours."""
        shapes = torch.tensor([image.shape[1:] for image in pixels])
        centred = None
        if self.crop == "random-resized":
            sides, centred = random_sides(shapes, self.scale, self.ratio, random)
        else:
            sides = self._square(shapes, self.size, self.crop_resize)
        corners = (random.uniform(2) * (shapes - sides + 1)).long()
        if self.crop in ("centre", "none"):
            corners = _middle(shapes, sides)
        elif centred is not None:
            corners = torch.where(centred[:, None], (shapes - sides) // 2, corners)
        mirrored = (random.uniform() < self.flip).tolist()
        batch = crop_views(pixels, corners, sides, self.size, mirrored, self.interpolation)
        if self.rand_augment:
            apply_rand_augment(batch, self.rand_augment, random)
        if self.color_jitter:
            apply_jitter(batch, self.color_jitter, random)
        if self.erasing:
            apply_erasing(batch, self.erasing, random)
        return batch

    def centre(self, pixels: Sequence[Tensor]) -> Tensor:
        """The centre crops."""
        shapes = torch.tensor([image.shape[1:] for image in pixels])
        sides = self._square(shapes, self.test_size, self.centre_resize)
        corners, unmirrored = _middle(shapes, sides), [False] * len(pixels)
        return crop_views(pixels, corners, sides, self.test_size, unmirrored, self.interpolation)

    def _square(self, shapes: Tensor, size: int, resize: Resize) -> Tensor:
        """The sides of a square of ``size`` pixels of images that were resized to ``resize``.

        Where images are stored in another size, it is as many pixels of theirs.
        """
        if self.crop == "none":
            return shapes
        sides = torch.full_like(shapes, size)
        if resize not in (None, self.resize):
            stored = shapes.amin(1, keepdim=True) if isinstance(resize, int) else shapes
            sides = (stored * size / torch.tensor(resize)).round().long().expand_as(shapes)
        if (shapes < sides).any():
            raise ValueError(f"'{self.name}' crops {size} pixels; resize images first")
        return sides


def _middle(shapes: Tensor, sides: Tensor) -> Tensor:
    return ((shapes - sides) / 2).round().long()


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
