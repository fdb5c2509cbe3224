"""Random numbers of images: each image of each training step has a stream of its own.

A stream depends on the seed of the run, the step, and the position of the image in the batch, and
on nothing else. Threads, processes and ranks that make different images of one batch therefore
agree without being told which part each of them has.
"""

import math

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

__all__ = ["ImageRandom"]

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
"""The step between the counters of splitmix64: 2^64 divided by the golden ratio."""


class ImageRandom:
    """One stream of random numbers per image, by splitmix64 (Steele et al., OOPSLA 2014).

    splitmix64 hashes a counter, so all images are drawn at once; a NumPy generator per image would
    cost more than the crop of a small image.

    Args:
        seed: The seed of the run.
        step: The training step.
        positions: The position of each image in the batch of that step.

    >>> batch = ImageRandom(seed=0, step=7, positions=range(4)).uniform(2)
    >>> torch.equal(ImageRandom(seed=0, step=7, positions=[2, 3]).uniform(2), batch[2:])
    True
    """

    def __init__(self, seed: int, step: int, positions: ArrayLike) -> None:
        start = np.random.SeedSequence((seed, step)).generate_state(1, np.uint64)
        counters = np.asarray(positions, np.uint64) + np.uint64(1)
        self._keys = _hashed(start + counters * GOLDEN)
        self._drawn = 0

    def __len__(self) -> int:
        """How many images there are."""
        return len(self._keys)

    def uniform(self, *shape: int) -> Tensor:
        """The next ``shape`` numbers of each image, in [0, 1): float64 [images, *shape]."""
        return torch.from_numpy((self._bits(shape) >> np.uint64(11)) * 2.0**-53)

    def integers(self, high: int, *shape: int) -> Tensor:
        """The next ``shape`` integers of each image, from 0 to ``high - 1``: [images, *shape]."""
        return (self.uniform(*shape) * high).long()

    def seeds(self) -> list[int]:
        """A seed for each image, for a function that has a generator of its own."""
        return [int(bits) for bits in self._bits(()) >> np.uint64(1)]

    def _bits(self, shape: tuple[int, ...]) -> NDArray[np.uint64]:
        count = math.prod(shape)
        counters = np.arange(self._drawn + 1, self._drawn + count + 1, dtype=np.uint64)
        self._drawn += count
        return _hashed(self._keys[:, None] + counters * GOLDEN).reshape(-1, *shape)


def _hashed(counters: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The finaliser of splitmix64; unsigned integers wrap around."""
    bits = (counters ^ (counters >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))
