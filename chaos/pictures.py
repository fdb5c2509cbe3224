"""Pictures for the campaign: a few classes, each of its own colour under noise."""

from pathlib import Path

import numpy as np
from PIL import Image

__all__ = ["make_pictures"]


def make_pictures(folder: Path, classes: int = 12, images: int = 6, size: int = 24) -> Path:
    """Write the pictures, always the same; the folder."""
    random = np.random.default_rng(0)
    for number in range(classes):
        colour = random.integers(60, 196, 3)
        (folder / f"{number:02}").mkdir(parents=True)
        for image in range(images):
            pixels = np.clip(colour + random.normal(0, 60, (size, size, 3)), 0, 255)
            path = folder / f"{number:02}" / f"{image}.png"
            Image.fromarray(pixels.astype(np.uint8)).save(path)
    return folder
