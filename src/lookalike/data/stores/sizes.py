"""How much disk a store takes, measured on some images before the first byte is written."""

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from lookalike.data.cache import Resize
from lookalike.data.image_set import ImageSet, UnreadableImage
from lookalike.data.parallel import in_threads
from lookalike.data.stores.jpeg import encode
from lookalike.errors import BadInput

__all__ = ["StoreSizes", "format_bytes", "measure", "require_space"]

SAMPLED = 64
LARGEST_RAW = 10_000_000_000
"""From here on ``auto`` takes JPEG; it depends on the data only, so that a run can be repeated."""


@dataclass(frozen=True)
class StoreSizes:
    """Estimated bytes of each kind of store."""

    raw: int
    jpeg: int

    @property
    def choice(self) -> Literal["raw", "jpeg"]:
        """The kind that ``data.store=auto`` takes."""
        return "jpeg" if self.raw > LARGEST_RAW else "raw"

    def __str__(self) -> str:
        return f"raw pixels take {format_bytes(self.raw)}, JPEGs {format_bytes(self.jpeg)}"


def measure(images: ImageSet, resize: Resize, quality: int) -> StoreSizes:
    """Estimate the sizes by some images, evenly spaced; always the same for the same images."""
    if not len(images):
        return StoreSizes(0, 0)
    chosen = np.unique(np.linspace(0, len(images) - 1, min(SAMPLED, len(images))).astype(np.int64))

    def one(index: int) -> tuple[int, int] | None:
        try:
            data, shape = encode(images, index, resize, quality)
        except UnreadableImage:  # building will say so
            return None
        return int(np.prod(shape)), len(data)

    found = [sizes for sizes in in_threads(one, chosen.tolist()) if sizes is not None]
    raw, jpeg = np.mean(found or [(0, 0)], axis=0) * len(images)
    return StoreSizes(int(raw), int(jpeg))


def require_space(needed: int, kind: str, sizes: StoreSizes, name: str, folder: Path) -> None:
    """Refuse to begin where the disk has too little space.

    Args:
        needed: Bytes still to write.
        kind: ``raw`` or ``jpeg``.
        sizes: Of both kinds.
        name: The data set.
        folder: Where the store will be.

    Raises:
        BadInput: There is too little.
    """
    free = shutil.disk_usage(folder).free
    if needed <= free:
        return
    smaller = ""
    if kind == "raw" and sizes.jpeg < needed:
        smaller = f"data.store=jpeg takes {format_bytes(sizes.jpeg)}; "
    raise BadInput(
        f"storing '{name}' (data.store={kind}) takes about {format_bytes(needed)} in {folder}, "
        f"where {format_bytes(free)} are free; {smaller}a preset (data.transform) of smaller "
        "images takes less, and LOOKALIKE_CACHE names a folder on another disk"
    )


def format_bytes(count: int) -> str:
    """A number of bytes as text.

    >>> format_bytes(1_530_000_000), format_bytes(20_000)
    ('1.53 GB', '0.02 MB')
    """
    return f"{count / 1e9:.3g} GB" if count >= 1e9 else f"{count / 1e6:.3g} MB"
