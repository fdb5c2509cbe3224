"""Large batches in little memory: GradCache (Gao et al., RepL4NLP 2021).

A loss over pairs cannot be summed over chunks of a batch, since pairs span them. But the gradient
of the weights w is ``dL/dw = sum_chunks (de_chunk/dw)^T dL/de_chunk``: embed all chunks without
a graph, compute the gradient of the loss with respect to the embeddings, then pass each chunk again
and propagate its part of that gradient. Only one chunk's activations are in memory at a time, and
the gradient is that of the whole batch.

What depends on the other rows of a pass is that of a chunk: batch norm's statistics, unless they
are frozen. They are tracked in the first pass only. Random layers draw the same in both passes.
"""

from contextlib import nullcontext
from typing import Any, NamedTuple

import torch
from lightning_fabric import Fabric
from torch import Tensor, nn

from lookalike.training.distributed.ranks import world_size
from lookalike.training.forward import DropoutRNG
from lookalike.training.objective import Objective


class Chunk(NamedTuple):
    """Rows that were passed through the network, and the embeddings of their batch."""

    inputs: Tensor
    embeddings: Tensor
    start: int


class CachedPasses:
    """Embeds images chunk by chunk and keeps them, but no graph.

    The embeddings are leaves; :meth:`backward` propagates their gradients to the weights.

    Args:
        network: A ``ForwardDispatch`` as Fabric gave it back.
        rows: The size of a chunk.
        dropout_rng: What random layers draw from, in both passes.
    """

    def __init__(self, network: nn.Module, rows: int, dropout_rng: DropoutRNG) -> None:
        self.network = network
        self.rows = rows
        self.dropout_rng = dropout_rng
        self.chunks: list[Chunk] = []

    def __call__(self, batch: Tensor) -> Tensor:
        """Images to embeddings."""
        parts = torch.split(batch, self.rows)
        with torch.no_grad():
            embedded = [self._pass(n, rows) for n, rows in enumerate(parts, len(self.chunks))]
        embeddings = torch.cat(embedded).requires_grad_()
        self.chunks += [Chunk(x, embeddings, n * self.rows) for n, x in enumerate(parts)]
        return embeddings

    def backward(self, fabric: Fabric) -> None:
        """Pass every chunk again and add its part to the gradients of the weights.

        The gradients that come in are scaled where the precision scales them, and Fabric scales
        once more; scales are powers of two, so that dividing loses nothing.
        """
        scaler = getattr(fabric.strategy.precision, "scaler", None)
        scale = 1.0 if scaler is None else scaler.get_scale()
        network: Any = self.network
        buffers = list(network.buffers())
        tracked = [buffer.clone() for buffer in buffers]
        for number, (inputs, embeddings, start) in enumerate(self.chunks):
            gradient = torch.zeros_like(embeddings) if embeddings.grad is None else embeddings.grad
            waiting = world_size() > 1 and number + 1 < len(self.chunks)
            with fabric.no_backward_sync(network) if waiting else nullcontext():
                again = self._pass(number, inputs)
                fabric.backward(again, gradient=gradient[start : start + self.rows] / scale)
        for buffer, value in zip(buffers, tracked, strict=True):
            buffer.copy_(value)

    def _pass(self, number: int, inputs: Tensor) -> Tensor:
        with self.dropout_rng.at(number):
            embeddings: Tensor = self.network(inputs)
            return embeddings


def backward_by_chunks(
    fabric: Fabric,
    objective: Objective,
    network: nn.Module,
    images: Tensor,
    labels: Tensor,
    *,
    chunks: int,
    dropout_rng: DropoutRNG,
) -> tuple[Tensor, Tensor]:
    """The loss of a batch and its embeddings; the parameters have their gradients."""
    cached = CachedPasses(network, -(-len(images) // chunks), dropout_rng)
    loss, embeddings = objective(cached, images, labels)
    fabric.backward(loss)
    cached.backward(fabric)
    return loss, embeddings
