"""Every way through the model, from a batch as it was read to embeddings, in one ``forward``.

Fabric takes care of what goes through ``forward`` only (its ``mark_forward_method`` does nothing on
a single device), so the parts of a model are called through one.

Mixing and miners draw the same random numbers in every process, since all compute the same loss.
Dropout must not: each process has other images. Its numbers therefore depend on the seed, the step,
the process and the pass, and leave torch's common random state unchanged.

Memory is saved by forgetting activations and computing them again in the backward pass (Chen et
al., Training Deep Nets with Sublinear Memory Cost, 2016): those of the network's blocks, or those
of chunks of the batch. The second is GradCache (Gao et al., RepL4NLP 2021): a loss over pairs
cannot be summed over chunks, since pairs span them, but the gradient of the weights w is ``dL/dw =
sum_chunks (de_chunk/dw)^T dL/de_chunk``, and autograd computes one chunk after the other. The
gradients are those of the whole batch, but for what depends on the other rows of a pass: batch
norm's statistics, unless they are frozen, are those of a chunk.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.fx import GraphModule
from torch.nn.modules.batchnorm import _BatchNorm
from torch.utils.checkpoint import checkpoint

from lookalike.errors import BadInput
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

    @contextmanager
    def next_pass(self) -> Iterator[None]:
        """The random state of the next pass; then torch's own again."""
        self.passes += 1
        devices = [torch.cuda.current_device()] if torch.cuda.is_available() else []
        state = np.random.SeedSequence((self.seed, self.step, rank(), self.passes))
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
        chunks: In how many chunks a batch is passed; of several, one has its activations in memory.
    """

    def __init__(
        self,
        model: EmbeddingModel,
        inputs: Callable[[Tensor], Tensor] | None = None,
        dropout_rng: DropoutRNG | None = None,
        chunks: int = 1,
    ) -> None:
        super().__init__()
        self.model = model
        self.inputs = inputs
        self.dropout_rng = dropout_rng
        self.chunks = chunks

    def forward(self, batch: Tensor, part: str = "forward") -> Tensor:
        """The batch through ``forward``, ``features`` or ``embed`` of the model.

        ``embed`` takes feature maps, or pooled ones; the others take a batch as it was read.
        """
        run = partial(self._run, part)
        with nullcontext() if self.dropout_rng is None else self.dropout_rng.next_pass():
            if self.chunks == 1:
                return run(batch)
            again = recomputed(run, self.model)
            rows = -(-len(batch) // self.chunks)
            return torch.cat([again(chunk) for chunk in torch.split(batch, rows)])

    def _run(self, part: str, batch: Tensor) -> Tensor:
        if part != "embed" and self.inputs is not None:
            weight = next(self.model.parameters(), batch)
            batch = self.inputs(batch).to(weight.dtype)  # a network may be whole in another one
        found: Tensor = getattr(self.model, part)(batch)
        return found

    @property
    def pooling(self) -> nn.Module:
        """Feature maps to vectors, outside of what Fabric's strategy looks after."""
        return self.model.pooling


def recomputed(function: Callable[..., Any], module: nn.Module) -> Callable[..., Any]:
    """A function of tensors whose activations are computed again in the backward pass.

    Random layers draw the same both times; batch norm's running statistics are updated once.

    Args:
        function: The function.
        module: What it calls.

    Returns:
        The function with the same results and gradients.
    """
    norms = [layer for layer in module.modules() if isinstance(layer, _BatchNorm)]

    def contexts() -> tuple[AbstractContextManager[None], AbstractContextManager[None]]:
        return nullcontext(), _frozen_statistics(norms)

    return partial(checkpoint, function, use_reentrant=False, context_fn=contexts)


@contextmanager
def _frozen_statistics(norms: list[_BatchNorm]) -> Iterator[None]:
    """Batch norm in training mode, without a second update of its running statistics.

    The number of batches is restored; with momentum 0, mean and variance do not change.
    """
    counters = [layer.num_batches_tracked for layer in norms]
    counts = [(counter, counter.clone()) for counter in counters if counter is not None]
    momenta = [layer.momentum for layer in norms]
    for layer in norms:
        layer.momentum = 0.0
    try:
        yield
    finally:
        for layer, momentum in zip(norms, momenta, strict=True):
            layer.momentum = momentum
        for counter, count in counts:
            counter.copy_(count)


def recompute_blocks(model: EmbeddingModel) -> int:
    """Make the blocks of the backbone recompute their activations; names and weights stay.

    Returns:
        The number of blocks.

    Raises:
        BadInput: The network has none.
    """
    found = list(_blocks(model.backbone.network))
    if not found:
        raise BadInput(
            "train.activation_checkpointing finds no blocks in this network; networks of timm "
            "have them (model.network=timm:NAME)"
        )
    for block in found:
        plain = block.forward
        again = recomputed(plain, block)
        block.forward = partial(_in_training, block, again, plain)
    return len(found)


def _in_training(
    block: nn.Module, again: Callable[..., Any], plain: Callable[..., Any], *inputs: Any
) -> Any:
    return again(*inputs) if block.training else plain(*inputs)


def _blocks(network: nn.Module) -> Iterator[nn.Module]:
    """The parts, with weights, of the outermost sequences of a network."""
    if isinstance(network, GraphModule):  # it calls the layers inside its blocks one by one
        return
    for child in network.children():
        if isinstance(child, nn.Sequential) and len(child) > 1:
            yield from (part for part in child if any(True for _ in part.parameters()))
        else:
            yield from _blocks(child)
