"""Every way through the model, from a batch as it was read to embeddings, in one ``forward``.

Fabric takes care of what goes through ``forward`` only (its ``mark_forward_method`` does nothing on
a single device), so the parts of a model are called through one.

Mixing and miners draw the same random numbers in every process, since all compute the same loss.
Dropout must not: each process has other images. Its numbers therefore depend on the seed, the step,
the process and the pass, and leave torch's common random state unchanged.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import numpy as np
import torch
from torch import Tensor, nn

from lookalike.models import EmbeddingModel
from lookalike.training.distributed.ranks import rank


class DropoutRNG:
    """A separate random state for each pass of each step of this process."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.begin(0)

    def begin(self, step: int) -> None:
        """Start the passes of a step."""
        self.step = step
        self.passes = 0

    def next_pass(self) -> AbstractContextManager[None]:
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


class ForwardDispatch(nn.Module):
    """A model whose parts are called through one ``forward``.

    Args:
        model: The model.
        inputs: From a batch as it was read (uint8 pixels, half-precision features) to what the
            model takes. It is called here, so that a chunk of a batch is completed when it is
            needed, and the whole batch takes a quarter of the memory. None: the batch itself.
        dropout_rng: What the random layers of the network draw from; None: torch's common state.
    """

    def __init__(
        self,
        model: EmbeddingModel,
        inputs: Callable[[Tensor], Tensor] | None = None,
        dropout_rng: DropoutRNG | None = None,
    ) -> None:
        super().__init__()
        self.model = model
        self.inputs = inputs or nn.Identity()
        self.dropout_rng = dropout_rng

    def forward(self, batch: Tensor, part: str = "forward") -> Tensor:
        """The batch through ``forward``, ``features`` or ``embed`` of the model.

        ``embed`` takes feature maps, or pooled ones; the others take a batch as it was read.
        """
        if part != "embed":
            batch = self.inputs(batch)
        with nullcontext() if self.dropout_rng is None else self.dropout_rng.next_pass():
            found: Tensor = getattr(self.model, part)(batch)
        return found

    @property
    def pooling(self) -> nn.Module:
        """Feature maps to vectors, outside of what Fabric's strategy looks after."""
        return self.model.pooling
