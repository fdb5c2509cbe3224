"""From stored pixels to a batch for the network: the published crops, and their test counterparts.

Every random number comes from the generator argument, a fixed number for each batch, so a batch
depends on the generator's state and the images only. A process with a part of a batch draws for the
whole and uses its part, so the parts are those of the whole. Crops are views on uint8 pixels; the
whole batch is converted to float once, at the end.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from lookalike.data.cache import Resize
from lookalike.errors import BadInput, did_you_mean

__all__ = ["PRESETS", "Normalisation", "Part", "Photo", "Preset", "preset"]


class Part(NamedTuple):
    """The rows ``start`` to ``stop`` of a batch of ``whole`` images.

    Attributes:
        whole: The images of the batch.
        start: The first row.
        stop: The row after the last.
    """

    whole: int
    start: int
    stop: int

    @property
    def rows(self) -> slice:
        """The rows as a slice."""
        return slice(self.start, self.stop)

    def of(self, drawn: Tensor, dim: int = 0) -> Tensor:
        """The random numbers of these rows, from those of all rows."""
        return drawn.narrow(dim, self.start, self.stop - self.start)


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

    def __call__(self, batch: Tensor, memory_format: torch.memory_format) -> Tensor:
        """A batch [B, C, H, W] of pixels 0..255 (uint8 or float) as the network's float32 input."""
        if batch.shape[1] == 3 and self.channels == 1:
            luma = batch.new_tensor([0.299, 0.587, 0.114], dtype=torch.float32)
            batch = torch.einsum("bchw,c->bhw", batch.float(), luma)[:, None]
        elif batch.shape[1] == 1 and self.channels == 3:
            batch = batch.expand(-1, 3, -1, -1)
        elif self.bgr:
            batch = batch.flip(1)
        real = partial(torch.tensor, dtype=torch.float32, device=batch.device)
        out = torch.empty_like(batch, dtype=torch.float32, memory_format=memory_format)
        out.copy_(batch)
        gain = real([self.scale / s for s in self.std])
        pairs = zip(self.mean, self.std, strict=True)
        shift = real([-m / s for m, s in pairs])
        if memory_format == torch.channels_last:  # whole rows at once are faster than three values
            rows, width = out.permute(0, 2, 3, 1).flatten(2), out.shape[3]
            rows.mul_(gain.repeat(width)).add_(shift.repeat(width))
        else:
            out.mul_(gain.view(1, -1, 1, 1)).add_(shift.view(1, -1, 1, 1))
        return out


@dataclass(frozen=True)
class Preset:
    """A pair of transforms: ``train`` with augmentation, ``test`` without; here of no change.

    Attributes:
        name: The value of ``data.transform``.
        resize: The size of the shorter side in the image cache, or its height and width; None:
            unchanged.
        size: The size of the images of a batch; None: unchanged.
        summary: A description.
    """

    name: str
    resize: Resize
    size: int | None
    summary: str

    def train(
        self,
        pixels: Sequence[Tensor],
        generator: torch.Generator,
        normalisation: Normalisation,
        memory_format: torch.memory_format = torch.contiguous_format,
        part: Part | None = None,
    ) -> Tensor:
        """An augmented batch, float32 [B, C, S, S]; ``part``: which rows of it these images are."""
        part = part or Part(len(pixels), 0, len(pixels))
        return normalisation(self.augment(pixels, generator, part), memory_format)

    def test(
        self,
        pixels: Sequence[Tensor],
        normalisation: Normalisation,
        memory_format: torch.memory_format = torch.contiguous_format,
    ) -> Tensor:
        """A batch without augmentation, float32 [B, C, S, S]."""
        return normalisation(self.centre(pixels), memory_format)

    def augment(self, pixels: Sequence[Tensor], generator: torch.Generator, part: Part) -> Tensor:  # noqa: ARG002
        """A batch of random views, 0..255: ``part`` of a larger one, or the whole."""
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


@dataclass(frozen=True)
class Photo(Preset):
    """Photos: resized, random crop and flip; tested on the centre crop.

    With ``scale`` the crop has a random area (that share of the image) and shape (3/4 to 4/3) and
    is resized (RandomResizedCrop); without, it is a square of ``size`` pixels at a random position.
    ``colour`` is the strength of the colour jitter, which also makes one image in five grey.
    """

    size: int
    scale: tuple[float, float] | None = None
    colour: float = 0

    def augment(self, pixels: Sequence[Tensor], generator: torch.Generator, part: Part) -> Tensor:
        """Random crops and flips, perhaps with other colours."""
        shapes = torch.tensor([image.shape[1:] for image in pixels])
        if self.scale is None:
            sides, centred = self._square(shapes), None
        else:
            sides, centred = _random_sides(shapes, self.scale, generator, part)
        place = part.of(torch.rand(part.whole, 2, generator=generator, dtype=torch.float64))
        corners = (place * (shapes - sides + 1)).long()
        if centred is not None:
            corners = torch.where(centred[:, None], (shapes - sides) // 2, corners)
        chance = part.of(torch.rand(part.whole, generator=generator, dtype=torch.float32))
        batch = _views(pixels, corners, sides, self.size, (chance < 0.5).tolist())
        if self.colour:
            _recolour(batch, self.colour, generator, part)
        return batch

    def centre(self, pixels: Sequence[Tensor]) -> Tensor:
        """The centre crops."""
        shapes = torch.tensor([image.shape[1:] for image in pixels])
        sides = self._square(shapes)
        corners = ((shapes - sides) / 2).round().long()
        return _views(pixels, corners, sides, self.size, [False] * len(pixels))

    def _square(self, shapes: Tensor) -> Tensor:
        if (shapes < self.size).any():
            raise ValueError(f"'{self.name}' crops {self.size} pixels; resize images first")
        return torch.full_like(shapes, self.size)


def _random_sides(
    shapes: Tensor,
    scale: tuple[float, float],
    generator: torch.Generator,
    part: Part,
    tries: int = 10,
) -> tuple[Tensor, Tensor]:
    """Height and width of a random crop for each image: uniform area, log-uniform aspect ratio.

    The first of ten draws that fits is taken; where none does, the largest shape of allowed
    ratio, marked in the second value to be centred (as torchvision's RandomResizedCrop does).
    """
    low, high = 3 / 4, 4 / 3
    draws = torch.rand(2, part.whole, tries, generator=generator, dtype=torch.float64)
    draws = part.of(draws, dim=1)
    area = shapes.prod(1, keepdim=True) * (scale[0] + (scale[1] - scale[0]) * draws[0])
    ratio = torch.exp(math.log(low) + (math.log(high) - math.log(low)) * draws[1])
    heights, widths = (area / ratio).sqrt().round(), (area * ratio).sqrt().round()
    height, width = shapes[:, :1], shapes[:, 1:]
    fits = (heights >= 1) & (heights <= height) & (widths >= 1) & (widths <= width)
    first = fits.to(torch.uint8).argmax(1, keepdim=True)
    drawn = torch.cat([heights.gather(1, first), widths.gather(1, first)], 1).long()
    widest = torch.minimum(width, (height * high).round().long()).clamp(min=1)
    highest = torch.minimum(height, (width / low).round().long()).clamp(min=1)
    fitted = fits.any(1)
    return torch.where(fitted[:, None], drawn, torch.cat([highest, widest], 1)), ~fitted


def _views(
    pixels: Sequence[Tensor], corners: Tensor, sides: Tensor, size: int, mirrored: Sequence[bool]
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
                view[None], (size, size), mode="bilinear", antialias=True
            )[0]
        target.copy_(view.flip(2) if mirror else view)
    return batch


def _recolour(batch: Tensor, strength: float, generator: torch.Generator, part: Part) -> None:
    """Brightness, contrast, saturation times 1 +- strength; hue rotated by that share of a turn."""
    from torchvision.transforms import functional as colours  # which takes seconds to import

    greyed = part.of(torch.rand(part.whole, generator=generator, dtype=torch.float32)) < 0.2
    drawn = torch.rand(part.whole, 4, generator=generator, dtype=torch.float64)
    chance = part.of(drawn) * 2 - 1
    for image, grey, (light, contrast, colour, hue) in zip(
        batch, greyed.tolist(), (chance * strength).tolist(), strict=True
    ):
        changed = colours.rgb_to_grayscale(image, image.shape[0]) if grey else image
        changed = colours.adjust_brightness(changed, 1 + light)
        changed = colours.adjust_contrast(changed, 1 + contrast)
        changed = colours.adjust_saturation(changed, 1 + colour)
        image.copy_(colours.adjust_hue(changed, hue))


@dataclass(frozen=True)
class _Drawing(Preset):
    """Drawings: a small random shift, scale and rotation; never mirrored.

    What comes in from outside of the image is black or, with ``paper``, as its border.
    """

    paper: bool = False

    def augment(self, pixels: Sequence[Tensor], generator: torch.Generator, part: Part) -> Tensor:
        batch = self.centre(pixels).float()
        drawn = torch.rand(4, part.whole, generator=generator, dtype=torch.float32)
        chance = part.of(drawn, dim=1) * 2 - 1
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


PRESETS: dict[str, Preset] = {
    made.name: made
    for made in (
        Photo(
            "reality-check", 256, 227, "256, RandomResizedCrop 227 (0.16 to 1), flip", (0.16, 1.0)
        ),
        Photo("proxy-anchor", 256, 224, "256, RandomResizedCrop 224 (0.08 to 1), flip", (0.08, 1)),
        Photo("simple", 256, 227, "256, random crop 227, flip"),
        Photo("simple-square", (256, 256), 227, "256 x 256, random crop 227, flip"),
        Photo("simple-224", 256, 224, "256, random crop 224, flip"),
        Photo("large", 256, 256, "256, RandomResizedCrop 256 (0.08 to 1), flip", (0.08, 1)),
        Photo("colour", 256, 224, "as proxy-anchor, with colours changed by 0.2", (0.08, 1), 0.2),
        Photo("small", 160, 128, "160, RandomResizedCrop 128 (0.16 to 1), flip", (0.16, 1.0)),
        Photo("small-plain", 160, 128, "160, random crop 128, flip"),
        Photo("small-colour", 160, 128, "as small, with colours changed by 0.2", (0.16, 1.0), 0.2),
        Photo("small-160", 200, 160, "200, RandomResizedCrop 160 (0.16 to 1), flip", (0.16, 1.0)),
        _Drawing(
            "glyphs",
            None,
            32,
            "32 px drawings: shift 2 px, size 0.87 to 1.15, turn 10 degrees, no flip",
        ),
        _Drawing(
            "handwriting",
            64,
            64,
            "64 px: shift 4 px, size 0.87 to 1.15, turn 10 degrees, no flip",
            paper=True,
        ),
        Preset("none", None, None, "images of one size, unchanged"),
    )
}


def preset(name: str) -> Preset:
    """The preset called ``name``.

    Args:
        name: A key of ``PRESETS``, or ``package.module:name`` of one's own.

    Returns:
        The preset.

    Raises:
        BadInput: There is no such preset.
    """
    if ":" in name:
        from lookalike.data.own_transforms import imported_preset

        return imported_preset(name)
    if name not in PRESETS:
        raise BadInput(f"there are no transforms called '{name}'; {did_you_mean(name, PRESETS)}")
    return PRESETS[name]
