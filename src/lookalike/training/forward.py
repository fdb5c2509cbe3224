"""Every way through the model, from a batch as it was read to embeddings.

Each way has the precision and the strategy of the run.

Fabric takes care of what goes through ``forward`` only (its ``mark_forward_method`` does nothing on
a single device), so the passes are one module with one ``forward``.

Mixing and miners draw the same random numbers in every process, since all compute the same loss.
Dropout must not: each process has other images. Its numbers therefore depend on the seed, the step,
the process and the pass, and leave torch's common random state unchanged.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn

from lookalike.models import EmbeddingModel
from lookalike.training.distributed.ranks import rank


class ForwardDispatch(nn.Module):
    """A model whose parts are called through one ``forward``.

    Args:
        model: The model.
        inputs: From a batch as it was read (uint8 pixels, half-precision features) to what the
            model takes. It is called here, so that a chunk of a batch is completed when it is
            needed, and the whole batch takes a quarter of the memory.
    """

    def __init__(self, model: EmbeddingModel, inputs: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.model = model
        self.inputs = inputs

    def forward(self, batch: Tensor, way: str) -> Tensor:
        """The batch through a method of the model: ``forward``, ``features`` or ``embed``."""
        if way != "embed":
            batch = self.inputs(batch)
        found: Tensor = getattr(self.model, way)(batch)
        return found


class FabricModel:
    """``ForwardDispatch`` as Fabric gave it back, with the methods of a model.

    ``drawing`` is entered for each pass: what the random layers of the network draw from.
    """

    def __init__(
        self,
        passes: nn.Module,
        drawing: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self.passes = passes
        self.drawing = drawing

    def __call__(self, batch: Tensor, way: str = "forward") -> Tensor:
        """Images to embeddings."""
        with self.drawing():
            found: Tensor = self.passes(batch, way)
        return found

    def features(self, images: Tensor) -> Tensor:
        """Images to feature maps."""
        return self(images, "features")

    def embed(self, features: Tensor) -> Tensor:
        """Feature maps, or pooled ones, to embeddings."""
        return self(features, "embed")

    @property
    def pooling(self) -> nn.Module:
        """Feature maps to vectors, outside of what the strategy looks after."""
        model: Any = self.passes.model
        found: nn.Module = model.pooling
        return found


Embedder: TypeAlias = EmbeddingModel | FabricModel
"""What an objective embeds with."""


class DropoutRNG:
    """A separate random state for each pass of each step of this process."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.begin(0)

    def begin(self, step: int) -> None:
        """Start the passes of a step."""
        self.step = step
        self.passes = 0

    def __call__(self) -> AbstractContextManager[None]:
        """The random state of the next pass."""
        self.passes += 1
        return self.at(self.passes)

    @contextmanager
    def at(self, number: int) -> Iterator[None]:
        """The random state of pass ``number``, the same each time; then torch's own again."""
        devices = [torch.cuda.current_device()] if torch.cuda.is_available() else []
        state = np.random.SeedSequence((self.seed, self.step, rank(), number))
        with torch.random.fork_rng(devices=devices):
            torch.manual_seed(int(state.generate_state(1, np.uint64)[0] >> 1))
            yield
