"""From stored pixels to a batch for the network: the interface of all transforms.

Every random number comes from the :class:`ImageRandom` argument, which has a stream for each image,
so that an image does not depend on what else is in its batch. Crops are views on uint8 pixels; the
whole batch is converted to float once, at the end.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn import functional

from lookalike.data.cache import Resize
from lookalike.data.image_random import ImageRandom
from lookalike.errors import BadInput

__all__ = ["ONE_VIEW", "Normalisation", "Preset", "Views"]


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

    def __call__(self, batch: Tensor, memory_format: torch.memory_format) -> Tensor:
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
    """A pair of transforms: ``train`` with augmentation, ``test`` without; here of no change.

    Attributes:
        name: The value of ``data.transform``.
        resize: The size of the shorter side in the image cache, or its height and width; None:
            unchanged.
        size: The size of the images of a batch; None: unchanged.
        summary: A description.
        views: What is averaged in a test.
        mean: Of red, green and blue from 0 to 1; None: the network's own.
        std: Of red, green and blue from 0 to 1; None: the network's own.
    """

    name: str
    resize: Resize
    size: int | None
    summary: str
    views: Views = ONE_VIEW
    mean: tuple[float, float, float] | None = None
    std: tuple[float, float, float] | None = None

    @property
    def test_size(self) -> int | None:
        """The size of the images of a test batch; None: unchanged."""
        return self.size

    def seen_part(self, height: int, width: int) -> tuple[float, float]:  # noqa: ARG002
        """Height and width of the centre that a test shows, as fractions of such an image's."""
        return 1.0, 1.0

    def normalisation(self, network: Normalisation) -> Normalisation:
        """How pixels are normalised: as ``network`` wants it, or by values of one's own."""
        if self.mean is None or self.std is None:
            return network
        return network.with_values(self.mean, self.std)

    def train(
        self,
        pixels: Sequence[Tensor],
        random: ImageRandom,
        normalisation: Normalisation,
        memory_format: torch.memory_format = torch.contiguous_format,
    ) -> Tensor:
        """An augmented batch, float32 [B, C, S, S]."""
        return normalisation(self.augment(pixels, random), memory_format)

    def test(
        self,
        pixels: Sequence[Tensor],
        normalisation: Normalisation,
        memory_format: torch.memory_format = torch.contiguous_format,
    ) -> Tensor:
        """A batch without augmentation, float32 [B, C, S, S]."""
        return normalisation(self.centre(pixels), memory_format)

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
