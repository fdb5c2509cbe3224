"""Changes of the pixels of a batch, in place: RandAugment, colour jitter, random erasing."""

import math
from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from lookalike.config import ColorJitterConfig, ErasingConfig, RandAugmentConfig
from lookalike.data.image_random import ImageRandom

__all__ = ["apply_erasing", "apply_jitter", "apply_rand_augment", "operations"]

LEVELS = 31
"""Magnitudes are 0 to 30."""
FILL = (124, 116, 104)
"""The mean colour of ImageNet: about 0 after normalisation."""
TRIES = 10

Operation = Callable[[Tensor, int, int], Tensor]
"""From an image, a magnitude and a sign to the changed image."""


def apply_rand_augment(batch: Tensor, given: RandAugmentConfig, random: ImageRandom) -> None:
    """RandAugment (Cubuk et al., NeurIPS 2020): change each image by random operations, in place.

    The operations are those of torchvision, whose class draws from torch's global generator, on
    which a batch must not depend.

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
    """The 14 operations of RandAugment by torchvision's names, by its public functions.

    Importing torchvision takes seconds, so it is imported here.
    """
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
