"""The cache folder, and in it images decoded and resized once, as memory-mapped raw bytes.

File layout: the pixels of all images one after another ([H, W, C], the order in which the resize
kernel is fastest), then their shapes, then a trailer that says where the shapes begin. The file
appears under its name only when it is complete.
"""

import glob
import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import platformdirs
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from lookalike.data.image_set import ImageSet, UnreadableImage, refuse_unreadable
from lookalike.errors import BadInput, LookalikeError
from lookalike.files import atomically, one_at_a_time

_MAGIC = b"LOOKPIX1"
_TRAILER = len(_MAGIC) + 8
_AT_A_TIME = 256
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


class PixelStore:
    """The decoded images of one data set, read without copying.

    The images share memory with the file's pages; writing to one does not change the file.

    Args:
        path: A file that :func:`open_store` wrote.

    Raises:
        ValueError: The file is no pixel store, or damaged.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - _TRAILER))
            trailer = file.read()
            if len(trailer) < _TRAILER or not trailer.startswith(_MAGIC):
                raise ValueError(f"{path} is no pixel store")
            start = int.from_bytes(trailer[8:], "little")
            file.seek(start)
            self.shapes: NDArray[np.int32] = np.load(file, allow_pickle=False)
        sizes = self.shapes.astype(np.int64).prod(1)
        self._offsets = np.concatenate([[0], sizes.cumsum()])
        if self._offsets[-1] != start:
            raise ValueError(f"{path} is damaged: its shapes and its pixels do not agree")
        mapped = np.memmap(path, np.uint8, "c", shape=(start,)) if start else np.empty(0, np.uint8)
        self._pixels = torch.from_numpy(mapped)

    def __len__(self) -> int:
        return len(self.shapes)

    def __reduce__(self) -> tuple[Any, ...]:
        return PixelStore, (self.path,)

    def read(self, index: int) -> Tensor:
        """Image ``index`` as uint8 [C, H, W], a view on the file."""
        if not 0 <= index < len(self):
            raise IndexError(f"image {index} of {len(self)}")
        height, width, channels = map(int, self.shapes[index])
        start = int(self._offsets[index])
        return self._pixels.as_strided(
            (channels, height, width), (1, width * channels, channels), start
        )

    def read_batch(self, indices: Sequence[int] | NDArray[np.int64] | Tensor) -> list[Tensor]:
        """Several images, each its own size."""
        return [self.read(int(index)) for index in indices]


def open_store(
    images: ImageSet,
    resize: Resize,
    folder: Path | None = None,
    progress: Progress | None = None,
) -> PixelStore:
    """Open the decoded images of a data set; decode them if this is the first use.

    Args:
        images: The data set.
        resize: The size of the shorter side, or height and width; None: unchanged.
        folder: The cache folder; None: the default one.
        progress: Is called with the images decoded so far, and all.

    Returns:
        The store.

    Raises:
        BadInput: Some images cannot be decoded; the message names them.
    """
    path = cache_folder(folder) / f"{images.name}-{_size_name(resize)}-{images.stamp}.pixels"
    try:
        if _existing(path) is None:
            with one_at_a_time(path):
                if _existing(path) is None:
                    _build(images, resize, path, progress)
    except OSError as error:
        raise LookalikeError(
            f"cannot write the image cache {path}: {error}; LOOKALIKE_CACHE names another folder"
        ) from error
    return PixelStore(path)


def _existing(path: Path) -> PixelStore | None:
    """The store, if there is one that is not damaged."""
    try:
        return PixelStore(path)
    except (FileNotFoundError, ValueError, EOFError):
        return None


def _build(images: ImageSet, resize: Resize, path: Path, progress: Progress | None) -> None:
    remove_abandoned(path)
    with atomically(path) as draft, draft.open("wb") as file:
        shapes = np.empty((len(images), 3), np.int32)
        bad: list[UnreadableImage] = []
        for index, pixels in enumerate(decoded(images, resize)):
            if isinstance(pixels, UnreadableImage):
                bad.append(pixels)
            elif not bad:
                shapes[index] = pixels.shape
                file.write(np.ascontiguousarray(pixels).data)
            if progress:
                progress(index + 1, len(images))
        if bad:
            raise refuse_unreadable(images.name, bad)
        start = file.tell()
        np.save(file, shapes)
        file.write(_MAGIC + start.to_bytes(8, "little"))


def decoded(images: ImageSet, resize: Resize) -> Iterator[NDArray[np.uint8] | UnreadableImage]:
    """Every image in order, or its error; decoded by several threads."""

    def one(index: int) -> NDArray[np.uint8] | UnreadableImage:
        try:
            return resized(images.decode(index), resize)
        except UnreadableImage as unreadable:
            return unreadable

    with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
        for start in range(0, len(images), _AT_A_TIME):
            yield from pool.map(one, range(start, min(start + _AT_A_TIME, len(images))))


def resized(pixels: NDArray[np.uint8], resize: Resize) -> NDArray[np.uint8]:
    """``pixels`` [H, W, C], resized bilinearly with antialiasing.

    A single number is the size of the shorter side, and the aspect ratio is kept.
    """
    height, width, channels = pixels.shape
    if isinstance(resize, int):
        short = min(height, width)
        resize = int(resize * height / short), int(resize * width / short)
    if resize is None or resize == (height, width):
        return pixels
    source = Image.fromarray(pixels[:, :, 0] if channels == 1 else pixels)
    made = np.asarray(source.resize(resize[::-1], Image.Resampling.BILINEAR))
    return made.reshape(*resize, channels)


def _size_name(resize: Resize) -> str:
    """The part of a cache file's name that says how images were resized."""
    if isinstance(resize, tuple):
        return "{}x{}px".format(*resize)
    return f"{resize or 'full'}px"
