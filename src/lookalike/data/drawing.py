"""Transforms of drawings."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from lookalike.data.image_random import ImageRandom
from lookalike.data.transforms import Preset

__all__ = ["Drawing"]


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
