"""What every store of images can do."""

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

__all__ = ["ImageStore", "Indices"]

Indices = Sequence[int] | NDArray[np.int64] | Tensor


class ImageStore(Protocol):
    """The images of one data set, resized, by index; several threads may read at a time."""

    @property
    def shapes(self) -> NDArray[np.int32]:
        """Height, width and channels of each image."""
        ...

    @property
    def settings(self) -> Mapping[str, str]:
        """What changes the pixels, for the names of what is computed from them; empty: nothing."""
        ...

    def __len__(self) -> int: ...

    def read(self, index: int) -> Tensor:
        """Image ``index`` as uint8 [C, H, W]."""
        ...

    def read_batch(self, indices: Indices) -> list[Tensor]:
        """Several images, each its own size."""
        ...
