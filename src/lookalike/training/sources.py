"""Where batches of inputs come from: pixels, or features that were computed once."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lookalike.data import Normalisation, Part, PixelStore, Preset

__all__ = ["Pixels", "Source"]


class Source(Protocol):
    """Inputs of a model, by image number."""

    def training(
        self, indices: NDArray[np.int64], generator: torch.Generator, part: Part | None = None
    ) -> Tensor:
        """A batch to learn from; every random number comes from ``generator``.

        ``part``: which rows of a larger batch these images are.
        """
        ...

    def testing(self, indices: NDArray[np.int64]) -> Tensor:
        """A batch to be embedded, always the same."""
        ...


@dataclass(frozen=True)
class Pixels:
    """Images from the cache, augmented or not, as the network wants them."""

    store: PixelStore
    preset: Preset
    normalisation: Normalisation
    layout: torch.memory_format = torch.contiguous_format

    def training(
        self, indices: NDArray[np.int64], generator: torch.Generator, part: Part | None = None
    ) -> Tensor:
        """Augmented images."""
        pixels = self.store.read_batch(indices)
        return self.preset.train(pixels, generator, self.normalisation, self.layout, part)

    def testing(self, indices: NDArray[np.int64]) -> Tensor:
        """Images by the test transform."""
        return self.preset.test(self.store.read_batch(indices), self.normalisation, self.layout)
