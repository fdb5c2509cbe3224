"""From stored pixels to a batch for the network: transforms of photos, of drawings, of none.

Every random number comes from the :class:`ImageRandom` argument, which has a stream for each image,
so that an image does not depend on what else is in its batch. Crops are views on uint8 pixels; the
whole batch is converted to float once, at the end.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional

from lookalike.config import ColorJitterConfig, ErasingConfig, RandAugmentConfig
from lookalike.data.augmentation import apply_erasing, apply_jitter, apply_rand_augment
from lookalike.data.cache import Resize
from lookalike.data.image_random import ImageRandom
from lookalike.errors import BadInput

__all__ = ["ONE_VIEW", "Drawing", "Normalisation", "Photo", "Preset", "Views"]


@dataclass(frozen=True)
class Normalisation:
    """The normalisation of a network's input: ``(pixel * scale - mean) / std`` per channel.

    Attributes:
        mean: One value per channel, in the network's channel order.
        std: One value per channel, in the network's channel order.
        scale: The factor on pixels from 0 to 255.
        bgr: Whether the network's first channel is blue.
        channels: 3 for colour, 1 for grey.
    """

    mean: tuple[float, ...] = (0.485, 0.456, 0.406)
    std: tuple[float, ...] = (0.229, 0.224, 0.225)
    scale: float = 1 / 255
    bgr: bool = False
    channels: int = 3

    def __post_init__(self) -> None:
        if self.channels not in (1, 3):
            raise BadInput(f"a network takes 1 (grey) or 3 (colour) channels, not {self.channels}")
        if not len(self.mean) == len(self.std) == self.channels:
            raise BadInput(f"mean and std need {self.channels} values, one a channel")

    def with_values(self, mean: Sequence[float], std: Sequence[float]) -> "Normalisation":
        """The same channels with other values, of red, green and blue from 0 to 1."""
        if self.channels == 1:
            mean, std = (sum(mean) / len(mean),), (sum(std) / len(std),)
        order = -1 if self.bgr else 1
        return replace(self, mean=tuple(mean)[::order], std=tuple(std)[::order], scale=1 / 255)

    def __call__(
        self, batch: Tensor, memory_format: torch.memory_format = torch.contiguous_format
    ) -> Tensor:
        """A batch [B, C, H, W] of pixels 0..255 (uint8 or float) as the network's float32 input."""
        if batch.shape[1] == 3 and self.channels == 1:
            luma = batch.new_tensor([0.299, 0.587, 0.114], dtype=torch.float32)
            batch = torch.einsum("bchw,c->bhw", batch.float(), luma)[:, None]
        elif batch.shape[1] == 1 and self.channels == 3:
            batch = batch.expand(-1, 3, -1, -1)
        elif self.bgr:
            batch = batch.flip(1)
        out = torch.empty_like(batch, dtype=torch.float32, memory_format=memory_format)
        out.copy_(batch)
        pairs = list(zip(self.mean, self.std, strict=True))
        gain = out.new_tensor([self.scale / std for _, std in pairs])
        shift = out.new_tensor([-mean / std for mean, std in pairs])
        if memory_format == torch.channels_last:  # whole rows at once are faster than three values
            rows, width = out.permute(0, 2, 3, 1).flatten(2), out.shape[3]
            rows.mul_(gain.repeat(width)).add_(shift.repeat(width))
        else:
            out.mul_(gain.view(1, -1, 1, 1)).add_(shift.view(1, -1, 1, 1))
        return out


@dataclass(frozen=True)
class Views:
    """The views of a test image whose embeddings are averaged.

    Attributes:
        flip: Whether the mirrored image counts too.
        scales: The sizes, relative to the input's, which is interpolated bilinearly as in the
            public code of Radenovic et al. (TPAMI 2019).
    """

    flip: bool = False
    scales: tuple[float, ...] = (1.0,)

    @property
    def is_single(self) -> bool:
        """Whether the input itself is the only view."""
        return self == ONE_VIEW

    @staticmethod
    def side(side: int, scale: float) -> int:
        """A side of a view, from that of the input."""
        return max(1, round(side * scale))

    def of(self, batch: Tensor) -> Iterator[Tensor]:
        """The views of a batch [B, C, H, W] of network input, one after the other."""
        for scale in self.scales:
            view = batch
            if scale != 1:
                size = [self.side(int(side), scale) for side in batch.shape[2:]]
                view = functional.interpolate(batch, size, mode="bilinear")
            yield view
            if self.flip:
                yield view.flip(3)


ONE_VIEW = Views()
"""The input as it is."""


@dataclass(frozen=True)
class Preset:
    """How images are shown to a network: ``augment`` in training, ``centre`` in tests; unchanged.

    Attributes:
        name: The value of ``data.transform``.
        resize: The size of the shorter side in the image cache, or its height and width; None:
            unchanged.
        size: The size of the images of a batch; None: unchanged.
        note: What a description begins with.
        views: What is averaged in a test.
        mean: Of red, green and blue from 0 to 1; None: the network's own.
        std: Of red, green and blue from 0 to 1; None: the network's own.
    """

    name: str
    resize: Resize
    size: int | None
    note: str = ""
    views: Views = ONE_VIEW
    mean: tuple[float, float, float] | None = None
    std: tuple[float, float, float] | None = None

    @property
    def test_size(self) -> int | None:
        """The size of the images of a test batch; None: unchanged."""
        return self.size

    @property
    def summary(self) -> str:
        """The transforms as text for tables."""
        return ", ".join(self.described())

    def described(self) -> Iterator[str]:
        """What is done to an image, in a few words each."""
        if self.note:
            yield self.note
        yield from self.tested()

    def tested(self) -> Iterator[str]:
        """What holds for every kind of transforms, in a few words each."""
        if self.mean is not None:
            yield "own mean and std"
        if self.views.flip:
            yield "tested with mirrored images"
        if self.views.scales != ONE_VIEW.scales:
            yield "tested at scales " + " ".join(f"{scale:g}" for scale in self.views.scales)

    def seen_part(self, height: int, width: int) -> tuple[float, float]:  # noqa: ARG002
        """Height and width of the centre that a test shows, as fractions of such an image's."""
        return 1.0, 1.0

    def normalisation(self, network: Normalisation) -> Normalisation:
        """How pixels are normalised: as ``network`` wants it, or by values of one's own."""
        if self.mean is None or self.std is None:
            return network
        return network.with_values(self.mean, self.std)

    def augment(self, pixels: Sequence[Tensor], random: ImageRandom) -> Tensor:  # noqa: ARG002
        """A batch of random views, 0..255."""
        return self.centre(pixels)

    def centre(self, pixels: Sequence[Tensor]) -> Tensor:
        """A batch of the one view used for testing, 0..255."""
        shapes = {tuple(image.shape) for image in pixels}
        if len(shapes) > 1:
            found = ", ".join(f"{width}x{height}" for _, height, width in sorted(shapes)[:4])
            raise BadInput(
                f"these transforms need images of one size but found {found}; choose another preset"
            )
        return torch.stack(list(pixels))


Crop = Literal["random-resized", "random", "centre", "none"]


@dataclass(frozen=True)
class Photo(Preset):
    """Photos: crop, flip, RandAugment, colour jitter, erasing; tested on the centre crop.

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

    def described(self) -> Iterator[str]:
        """The keys, as text."""
        resize = self.crop_resize or self.resize
        size = " x ".join(map(str, resize)) if isinstance(resize, tuple) else str(resize)
        yield f"{self.note}: {size}" if self.note else size
        low, high = self.scale
        yield {
            "random-resized": f"RandomResizedCrop {self.size} ({low:g} to {high:g})",
            "random": f"random crop {self.size}",
            "centre": f"centre crop {self.size}",
            "none": f"whole image {self.size}",
        }[self.crop]
        low, high = self.ratio
        if self.crop == "random-resized" and self.ratio != Photo.ratio:
            yield f"width by height {low:g} to {high:g}"
        if self.interpolation != Photo.interpolation:
            yield self.interpolation
        if self.flip:
            yield "flip" if self.flip == Photo.flip else f"flip {self.flip:g}"
        if self.color_jitter:
            changed = self.color_jitter.model_dump(exclude_defaults=True)
            yield "colours " + ", ".join(f"{name} {by:g}" for name, by in changed.items())
        if self.rand_augment:
            yield f"RandAugment {self.rand_augment.num_ops} x {self.rand_augment.magnitude}"
        if self.erasing:
            yield f"erasing {self.erasing.probability:g}"
        if self.centre_size:
            yield f"tested at {self.centre_size} of {self.centre_resize}"
        yield from self.tested()

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


@dataclass(frozen=True)
class Drawing(Preset):
    """Drawings: a small random shift, scale and rotation; never mirrored.

    What comes in from outside of the image is black or, with ``paper``, as its border.
    """

    paper: bool = False

    def augment(self, pixels: Sequence[Tensor], random: ImageRandom) -> Tensor:
        """Drawings moved a little."""
        batch = self.centre(pixels).float()
        chance = random.uniform(4).float().T * 2 - 1
        angle = chance[0] * math.radians(10)
        zoom = torch.exp(chance[1] * math.log(1.15))
        shift = chance[2:] * 2 * (2 / 32)  # two of 32 pixels, or that share of the side
        rows = [
            torch.stack([angle.cos() * zoom, -angle.sin() * zoom, shift[0]], 1),
            torch.stack([angle.sin() * zoom, angle.cos() * zoom, shift[1]], 1),
        ]
        grid = functional.affine_grid(torch.stack(rows, 1), list(batch.shape), align_corners=False)
        outside = "border" if self.paper else "zeros"
        return functional.grid_sample(batch, grid, padding_mode=outside, align_corners=False)
