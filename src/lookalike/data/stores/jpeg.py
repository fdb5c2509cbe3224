"""Images as JPEGs in a few large files, decoded when they are read: about a tenth of raw pixels.

Each shard is the JPEGs of consecutive images, one after another, with an index of where each ends,
its shape, and its class. Shards are read with ``pread``, so that the memory of the
process does not grow with the store.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import simplejpeg
import torch
from numpy.typing import NDArray
from torch import Tensor

from lookalike.data.cache import Resize, resized
from lookalike.data.image_set import ImageSet, UnreadableImage
from lookalike.data.stores.indexed_file import ImageChecks, read_index
from lookalike.data.stores.store import Indices
from lookalike.files import open_regular

__all__ = ["INDEX", "MAGIC", "JpegStore", "encode"]

MAGIC = b"LOOKJPG2"
INDEX = np.dtype([("end", "<i8"), ("shape", "<i4", (3,)), ("label", "<i8"), ("checksum", "<u4")])
"""One row per image of a shard."""

_KEPT_RATIO = 2
"""How much larger than a new JPEG the original may be, to be kept without another loss."""


class JpegStore:
    """The images of one data set from shards of JPEGs.

    Args:
        shards: The files, in order, that :func:`lookalike.data.open_store` wrote.
        quality: The quality that they were written with.

    Raises:
        ValueError: A file is no shard, or damaged.
    """

    def __init__(self, shards: list[Path], quality: int) -> None:
        self.paths = shards
        self.quality = quality
        found = [read_index(path, MAGIC) for path in shards]
        for path, (index, start) in zip(shards, found, strict=True):
            if index.dtype != INDEX or (len(index) and index["end"][-1] != start):
                raise ValueError(f"{path} is damaged: its index and its images do not agree")
        rows = np.concatenate([index for index, _ in found] or [np.empty(0, INDEX)])
        self._ends: NDArray[np.int64] = rows["end"]
        self.shapes: NDArray[np.int32] = rows["shape"]
        self.labels: NDArray[np.int64] = rows["label"]
        self._checks = ImageChecks(rows["checksum"])
        self._first = np.cumsum([0, *(len(index) for index, _ in found)])
        self._files = [open_regular(path) for path in shards]

    def __len__(self) -> int:
        return len(self._ends)

    def __reduce__(self) -> tuple[Any, ...]:
        return JpegStore, (self.paths, self.quality)

    @property
    def settings(self) -> Mapping[str, str]:
        """The kind of store and its quality."""
        return {"store": "jpeg", "jpeg_quality": str(self.quality)}

    def data(self, index: int) -> bytes:
        """The JPEG of image ``index``."""
        if not 0 <= index < len(self):
            raise IndexError(f"image {index} of {len(self)}")
        shard = int(np.searchsorted(self._first, index, "right")) - 1
        start = 0 if index == self._first[shard] else int(self._ends[index - 1])
        data = os.pread(self._files[shard].fileno(), int(self._ends[index]) - start, start)
        self._checks.compare(index, data, self.paths[shard])
        return data

    def read(self, index: int) -> Tensor:
        """Image ``index`` as uint8 [C, H, W]."""
        pixels = decode(self.data(index), int(self.shapes[index, 2]))
        return torch.from_numpy(pixels).permute(2, 0, 1)

    def read_batch(self, indices: Indices) -> list[Tensor]:
        """Several images, each its own size."""
        return [self.read(int(index)) for index in indices]


def decode(data: bytes, channels: int) -> NDArray[np.uint8]:
    """The pixels [H, W, C] of a JPEG."""
    pixels: NDArray[np.uint8] = simplejpeg.decode_jpeg(data, "GRAY" if channels == 1 else "RGB")
    return pixels


def encode(
    images: ImageSet, index: int, resize: Resize, quality: int
) -> tuple[bytes, tuple[int, int, int]]:
    """Image ``index`` as a JPEG, and its shape.

    The original file is kept where it is a JPEG that needs no resizing, has few bytes and decodes
    to the same pixels.
    """
    pixels = images.decode(index)
    made = np.ascontiguousarray(resized(pixels, resize))
    height, width, channels = made.shape
    kind, sampling = ("GRAY", "Gray") if channels == 1 else ("RGB", "420")
    try:
        data: bytes = simplejpeg.encode_jpeg(made, quality, kind, sampling)
    except ValueError as error:  # a side of more than 65,500 pixels
        raise UnreadableImage(images.files[index], f"no JPEG can hold it: {error}") from error
    if images.encoded is not None and made.shape == pixels.shape:
        original = images.encoded(index)
        if len(original) <= _KEPT_RATIO * len(data) and _decodes_to(original, pixels):
            data = original
    return data, (height, width, channels)


def _decodes_to(data: bytes, pixels: NDArray[np.uint8]) -> bool:
    """Whether a file is a JPEG of exactly these pixels: not rotated by EXIF data, not CMYK."""
    try:
        return np.array_equal(decode(data, pixels.shape[2]), pixels)
    except ValueError:  # no JPEG, or one that this decoder refuses
        return False
