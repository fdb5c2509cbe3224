"""Images as raw bytes in one file that is mapped into memory: the fastest store, and the largest.

The pixels of all images follow one another ([H, W, C], the order in which the resize kernel is
fastest); the index has their shapes. The file appears under its name only when it is complete.
"""

import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lookalike.data.cache import Progress, Resize, decoded, remove_abandoned
from lookalike.data.image_set import ImageSet, UnreadableImage, refuse_unreadable
from lookalike.data.stores.indexed_file import ImageChecks, read_index, write_index
from lookalike.data.stores.store import Indices
from lookalike.files import atomically, locked

__all__ = ["PixelStore", "build_raw", "existing_raw"]

_MAGIC = b"LOOKPIX2"
_INDEX = np.dtype([("shape", "<i4", (3,)), ("checksum", "<u4")])


class PixelStore:
    """The decoded images of one data set, read without copying.

    The images share memory with the file's pages; writing to one does not change the file.

    Args:
        path: A file that :func:`lookalike.data.open_store` wrote.

    Raises:
        ValueError: The file is no pixel store, or damaged.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.shapes: NDArray[np.int32]
        index, start = read_index(path, _MAGIC)
        if index.dtype != _INDEX:
            raise ValueError(f"{path} is no image store")
        self.shapes = index["shape"]
        self._checks = ImageChecks(index["checksum"])
        sizes = self.shapes.astype(np.int64).prod(1)
        self._offsets = np.concatenate([[0], sizes.cumsum()])
        if self._offsets[-1] != start:
            raise ValueError(f"{path} is damaged: its shapes and its pixels do not agree")
        mapped = np.memmap(path, np.uint8, "c", shape=(start,)) if start else np.empty(0, np.uint8)
        self._mapped = mapped
        self._pixels = torch.from_numpy(mapped)

    def __len__(self) -> int:
        return len(self.shapes)

    def __reduce__(self) -> tuple[Any, ...]:
        return PixelStore, (self.path,)

    @property
    def settings(self) -> Mapping[str, str]:
        """Nothing: these are the pixels as they were decoded and resized."""
        return {}

    def read(self, index: int) -> Tensor:
        """Image ``index`` as uint8 [C, H, W], a view on the file."""
        if not 0 <= index < len(self):
            raise IndexError(f"image {index} of {len(self)}")
        height, width, channels = map(int, self.shapes[index])
        start = int(self._offsets[index])
        self._checks.compare(index, self._mapped[start : self._offsets[index + 1]], self.path)
        return self._pixels.as_strided(
            (channels, height, width), (1, width * channels, channels), start
        )

    def read_batch(self, indices: Indices) -> list[Tensor]:
        """Several images, each its own size."""
        return [self.read(int(index)) for index in indices]


def existing_raw(path: Path) -> PixelStore | None:
    """The store, if there is one that is not damaged."""
    try:
        return PixelStore(path)
    except (FileNotFoundError, ValueError, EOFError):
        return None


def build_raw(images: ImageSet, resize: Resize, path: Path, progress: Progress | None) -> None:
    """Write the store, unless another process of this machine does so meanwhile."""
    with locked(path.with_name(f"{path.name}.lock")):
        if existing_raw(path) is not None:
            return
        remove_abandoned(path)
        with atomically(path) as draft, draft.open("wb") as file:
            rows = np.empty(len(images), _INDEX)
            bad: list[UnreadableImage] = []
            for index, pixels in enumerate(decoded(images, resize)):
                if isinstance(pixels, UnreadableImage):
                    bad.append(pixels)
                elif not bad:
                    content = np.ascontiguousarray(pixels).data
                    rows[index] = pixels.shape, zlib.crc32(content)
                    file.write(content)
                if progress:
                    progress(index + 1, len(images))
            if bad:
                raise refuse_unreadable(images.name, bad)
            write_index(file, _MAGIC, rows)
