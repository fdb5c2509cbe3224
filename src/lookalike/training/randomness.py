"""Random numbers of the network's layers, separate from those that all processes share.

Mixing and miners draw the same in every process, since all compute the same loss. Dropout must not:
each process has other images. Its numbers therefore depend on the seed, the step, the process and
the pass, and leave torch's common random state unchanged.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch

from lookalike.training.distributed.ranks import rank

__all__ = ["PassRandom", "separate_random_state"]


@contextmanager
def separate_random_state(*numbers: int) -> Iterator[None]:
    """A random state that depends on ``numbers`` only; torch's own is restored afterwards."""
    devices = [torch.cuda.current_device()] if torch.cuda.is_available() else []
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed(int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0] >> 1))
        yield


class PassRandom:
    """A separate random state for each pass of each step of this process."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.step = 0
        self.passes = 0

    def begin(self, step: int) -> None:
        """Start the passes of a step."""
        self.step = step
        self.passes = 0

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """The random state of the next pass."""
        self.passes += 1
        with self.at(self.passes):
            yield

    @contextmanager
    def at(self, number: int) -> Iterator[None]:
        """The random state of pass ``number``; the same each time."""
        with separate_random_state(self.seed, self.step, rank(), number):
            yield
