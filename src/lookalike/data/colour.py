"""Colour jitter, compiled: brightness, contrast, saturation and hue of a batch of pixels, in place.

The values are those of ``torchvision.transforms.functional`` on uint8 tensors, with its rounding
after each step (towards zero) and its float32 arithmetic in the same order:

* brightness ``b p``, contrast ``c p + (1 - c) mean(luma)``, saturation ``s p + (1 - s) luma``, each
  cut to 0..255, where ``luma = 0.2989 R + 0.587 G + 0.114 B``;
* hue: from RGB to HSV, ``H + h`` modulo 1, and back.

Two passes over an image, the second one row at a time in planes that fit into the cache, instead of
some sixty operations on whole images: 78 us an image of 224 px on one core (one loop over pixels,
without rows as planes, is not vectorised and takes 2,300). The interpreter lock is released, so
that threads share the work. Importing this module imports numba.
"""

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from lookalike.ops.compiled import compiled

RED, GREEN, BLUE = np.float32(0.2989), np.float32(0.587), np.float32(0.114)
ZERO, ONE, TWO, THREE, FOUR, FIVE, SIX = (np.float32(number) for number in range(7))
WHITE = np.float32(255)
WHOLE = np.float32(255 + 1 - 1e-3)
"""By which torchvision multiplies fractions of 1 before it cuts them to whole numbers."""


def recolour(batch: Tensor, greyed: Tensor, factors: Tensor) -> None:
    """Change the colours of each image of a batch, in place.

    Args:
        batch: Pixels, uint8 [B, C, H, W] with 1 or 3 channels, channels last in memory.
        greyed: Which images are made grey first, bool [B].
        factors: Factors of brightness, contrast and saturation, and the hue's rotation as a share
            of a turn (from -0.5 to 0.5), float64 [B, 4].
    """
    jitter(batch.permute(0, 2, 3, 1).numpy(), greyed.numpy(), factors.numpy())


@compiled
def jitter(
    batch: NDArray[np.uint8], greyed: NDArray[np.bool_], factors: NDArray[np.float64]
) -> None:
    """The images [B, H, W, C], one after the other."""
    height, width, channels = batch.shape[1:]
    planes = np.empty((3, width), np.float32)
    for n in range(batch.shape[0]):
        image, grey = batch[n], greyed[n]
        light, contrast, saturation, hue = factors[n]
        brightness = np.float32(light)
        total = 0
        for y in range(height):
            load(image[y], planes, grey, brightness)
            total += luma_sum(planes) if channels == 3 else plane_sum(planes[0])
        mean = np.float32(total) / np.float32(height * width)
        shift = np.float32(1 - contrast) * mean
        for y in range(height):
            load(image[y], planes, grey, brightness)
            stretch(planes, np.float32(contrast), shift)
            if channels == 3:
                saturate(planes, np.float32(saturation), np.float32(1 - saturation))
                to_hsv(planes)
                rotate(planes[0], np.float32(hue))
                to_rgb(planes)
            store(planes, image[y])


@compiled
def load(
    row: NDArray[np.uint8], planes: NDArray[np.float32], grey: bool, brightness: np.float32
) -> None:
    """A row of pixels [W, C] as planes [C, W], grey if asked, with its brightness changed."""
    if row.shape[1] == 3:
        for x in range(row.shape[0]):
            planes[0, x], planes[1, x], planes[2, x] = row[x, 0], row[x, 1], row[x, 2]
    else:
        planes[0] = row[:, 0]
    if grey and row.shape[1] == 3:
        for x in range(row.shape[0]):
            luma = np.trunc(RED * planes[0, x] + GREEN * planes[1, x] + BLUE * planes[2, x])
            planes[0, x] = planes[1, x] = planes[2, x] = luma
    for c in range(row.shape[1]):
        for x in range(row.shape[0]):
            planes[c, x] = cut(brightness * planes[c, x])


@compiled
def cut(value: np.float32) -> np.float32:
    """A grey level: from 0 to 255, without its fraction."""
    return np.float32(np.trunc(min(max(value, ZERO), WHITE)))


@compiled
def luma_sum(planes: NDArray[np.float32]) -> int:
    """The sum of the luma of a row, each a whole number."""
    total = 0
    for x in range(planes.shape[1]):
        luma = RED * planes[0, x] + GREEN * planes[1, x] + BLUE * planes[2, x]
        total += int(np.int32(luma))
    return total


@compiled
def plane_sum(plane: NDArray[np.float32]) -> int:
    """The sum of a row of grey levels."""
    total = 0
    for x in range(plane.shape[0]):
        total += int(np.int32(plane[x]))
    return total


@compiled
def stretch(planes: NDArray[np.float32], contrast: np.float32, shift: np.float32) -> None:
    """Contrast."""
    for c in range(planes.shape[0]):
        for x in range(planes.shape[1]):
            planes[c, x] = cut(contrast * planes[c, x] + shift)


@compiled
def saturate(planes: NDArray[np.float32], own: np.float32, other: np.float32) -> None:
    """Saturation."""
    for x in range(planes.shape[1]):
        red, green, blue = planes[0, x], planes[1, x], planes[2, x]
        grey = other * np.trunc(RED * red + GREEN * green + BLUE * blue)
        planes[0, x] = cut(own * red + grey)
        planes[1, x] = cut(own * green + grey)
        planes[2, x] = cut(own * blue + grey)


@compiled
def to_hsv(planes: NDArray[np.float32]) -> None:
    """Grey levels of red, green and blue as hue, saturation and value from 0 to 1.

    Written without branches and apart from :func:`to_rgb`, so that several pixels are computed at
    once.
    """
    for x in range(planes.shape[1]):
        red, green, blue = planes[0, x] / WHITE, planes[1, x] / WHITE, planes[2, x] / WHITE
        value = max(red, max(green, blue))
        spread = value - min(red, min(green, blue))
        divisor = spread if spread > ZERO else ONE
        r, g, b = (value - red) / divisor, (value - green) / divisor, (value - blue) / divisor
        hue = b - g if value == red else (TWO + r - b if value == green else FOUR + g - r)
        hue = hue / SIX + ONE
        planes[0, x] = hue - ONE if hue >= ONE else hue
        planes[1, x] = spread / (value if spread > ZERO else ONE)
        planes[2, x] = value


@compiled
def rotate(hue: NDArray[np.float32], turn: np.float32) -> None:
    """``hue + turn``, modulo 1."""
    for x in range(hue.shape[0]):
        turned = hue[x] + turn
        turned = turned - ONE if turned >= ONE else turned
        hue[x] = turned + ONE if turned < ZERO else turned


@compiled
def to_rgb(planes: NDArray[np.float32]) -> None:
    """Hue, saturation and value as grey levels of red, green and blue, with fractions."""
    for x in range(planes.shape[1]):
        hue, saturation, value = planes[0, x], planes[1, x], planes[2, x]
        sector = np.floor(hue * SIX)  # 0 to 5; also 6, where the hue was rounded to 1
        part = hue * SIX - sector
        low = value * (ONE - saturation)
        falling = value * (ONE - saturation * part)
        rising = value * (ONE - saturation * (ONE - part))
        first, last = (sector < ONE) | (sector > FIVE), sector == FIVE
        second, third, fourth, fifth = sector == ONE, sector == TWO, sector == THREE, sector == FOUR
        red = value if first | last else (falling if second else (rising if fifth else low))
        green = rising if first else (value if second | third else (falling if fourth else low))
        blue = rising if third else (value if fourth | fifth else (falling if last else low))
        planes[0, x], planes[1, x], planes[2, x] = red * WHOLE, green * WHOLE, blue * WHOLE


@compiled
def store(planes: NDArray[np.float32], row: NDArray[np.uint8]) -> None:
    """Planes [C, W] as a row of pixels [W, C]; fractions are cut off."""
    if row.shape[1] == 3:
        for x in range(row.shape[0]):
            row[x, 0] = np.uint8(planes[0, x])
            row[x, 1] = np.uint8(planes[1, x])
            row[x, 2] = np.uint8(planes[2, x])
    else:
        for x in range(row.shape[0]):
            row[x, 0] = np.uint8(planes[0, x])
