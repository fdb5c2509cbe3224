"""The cache folder, and images decoded and resized for it."""

import glob
import os
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import platformdirs
from numpy.typing import NDArray
from PIL import Image

from lookalike.data.image_set import ImageSet, UnreadableImage
from lookalike.data.parallel import in_threads
from lookalike.errors import BadInput

_ABANDONED_SECONDS = 3600

Progress = Callable[[int, int], None]
Resize = int | tuple[int, int] | None
"""The size of a cached image: of its shorter side, or height and width; None: unchanged."""


def cache_folder(folder: Path | None = None) -> Path:
    """``folder``, else the environment variable LOOKALIKE_CACHE, else the user's cache folder."""
    usual = os.environ.get("LOOKALIKE_CACHE") or platformdirs.user_cache_dir("lookalike")
    chosen = folder or Path(usual)
    try:
        chosen.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(f"cannot use {chosen} as cache folder (LOOKALIKE_CACHE): {error}") from error
    return chosen


def remove_abandoned(path: Path) -> None:
    """Remove temporary files of ``path`` left by killed processes; live ones are written hourly."""
    for draft in path.parent.glob(f".{glob.escape(path.name)}.*"):
        with suppress(OSError):
            if draft.stat().st_mtime < time.time() - _ABANDONED_SECONDS:
                draft.unlink()


def decoded(images: ImageSet, resize: Resize) -> Iterator[NDArray[np.uint8] | UnreadableImage]:
    """Every image in order, or its error; decoded by several threads."""

    def one(index: int) -> NDArray[np.uint8] | UnreadableImage:
        try:
            return resized(images.decode(index), resize)
        except UnreadableImage as unreadable:
            return unreadable

    yield from in_threads(one, range(len(images)))


def resized(pixels: NDArray[np.uint8], resize: Resize) -> NDArray[np.uint8]:
    """``pixels`` [H, W, C], resized bilinearly with antialiasing.

    A single number is the size of the shorter side, and the aspect ratio is kept.
    """
    height, width, channels = pixels.shape
    if target_size(height, width, resize) == (height, width):
        return pixels
    made = np.asarray(
        resized_image(Image.fromarray(pixels[:, :, 0] if channels == 1 else pixels), resize)
    )
    return made.reshape(*made.shape[:2], channels)


def resized_image(image: Image.Image, resize: Resize) -> Image.Image:
    """As :func:`resized`, without a copy of the pixels as an array."""
    size = target_size(image.height, image.width, resize)
    if size == (image.height, image.width):
        return image
    return image.resize(size[::-1], Image.Resampling.BILINEAR)


def target_size(height: int, width: int, resize: Resize) -> tuple[int, int]:
    """Height and width after resizing."""
    if isinstance(resize, int):
        short = min(height, width)
        return int(resize * height / short), int(resize * width / short)
    return resize or (height, width)


def size_name(resize: Resize) -> str:
    """The part of a cache file's name that says how images were resized."""
    if isinstance(resize, tuple):
        return "{}x{}px".format(*resize)
    return f"{resize or 'full'}px"
