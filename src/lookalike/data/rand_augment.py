"""RandAugment (Cubuk et al., NeurIPS 2020): torchvision's operations.

Their random numbers come from the streams of the images; torchvision's own class draws from torch's
global generator, which a batch must not depend on.
"""

import math
from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from lookalike.config import RandAugmentConfig
from lookalike.data.image_random import ImageRandom

__all__ = ["apply_rand_augment"]

LEVELS = 31
"""Magnitudes are 0 to 30."""

Operation = Callable[[Tensor, int, int], Tensor]
"""From an image, a magnitude and a sign to the changed image."""


def apply_rand_augment(batch: Tensor, given: RandAugmentConfig, random: ImageRandom) -> None:
    """Change each image of a batch by random operations, in place.

    Args:
        batch: Pixels, uint8 [B, C, H, W] with 1 or 3 channels.
        given: How many operations, and how strong.
        random: Where chance comes from.
    """
    known = list(operations().values())
    chosen = random.integers(len(known), given.num_ops).tolist()
    signs = (random.integers(2, given.num_ops) * 2 - 1).tolist()
    for image, numbers, directions in zip(batch, chosen, signs, strict=True):
        changed = image
        for number, sign in zip(numbers, directions, strict=True):
            changed = known[number](changed, given.magnitude, sign)
        image.copy_(changed)


def operations() -> Mapping[str, Operation]:
    """The 14 operations by torchvision's names; importing torchvision takes seconds."""
    from torchvision.transforms import functional

    def level(highest: float, magnitude: int) -> float:
        return float(torch.linspace(0.0, highest, LEVELS)[magnitude])

    def factor(change: Callable[[Tensor, float], Tensor]) -> Operation:
        return lambda image, magnitude, sign: change(image, 1 + sign * level(0.9, magnitude))

    def shear(axis: int) -> Operation:
        def sheared(image: Tensor, magnitude: int, sign: int) -> Tensor:
            angles = [0.0, 0.0]
            angles[axis] = math.degrees(math.atan(sign * level(0.3, magnitude)))
            found: Tensor = functional.affine(image, 0.0, [0, 0], 1.0, angles, center=[0, 0])
            return found

        return sheared

    def translate(axis: int) -> Operation:
        def translated(image: Tensor, magnitude: int, sign: int) -> Tensor:
            shift, side = [0, 0], image.shape[2 - axis]
            shift[axis] = int(sign * level(150.0 / 331.0 * side, magnitude))
            found: Tensor = functional.affine(image, 0.0, shift, 1.0, [0.0, 0.0])
            return found

        return translated

    return {
        "Identity": lambda image, _magnitude, _sign: image,
        "ShearX": shear(0),
        "ShearY": shear(1),
        "TranslateX": translate(0),
        "TranslateY": translate(1),
        "Rotate": lambda image, magnitude, sign: functional.rotate(
            image, sign * level(30.0, magnitude)
        ),
        "Brightness": factor(functional.adjust_brightness),
        "Color": factor(functional.adjust_saturation),
        "Contrast": factor(functional.adjust_contrast),
        "Sharpness": factor(functional.adjust_sharpness),
        "Posterize": lambda image, magnitude, _sign: functional.posterize(
            image, 8 - round(magnitude / ((LEVELS - 1) / 4))
        ),
        "Solarize": lambda image, magnitude, _sign: functional.solarize(
            image, float(torch.linspace(255.0, 0.0, LEVELS)[magnitude])
        ),
        "AutoContrast": lambda image, _magnitude, _sign: functional.autocontrast(image),
        "Equalize": lambda image, _magnitude, _sign: functional.equalize(image),
    }
