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
from lookalike.training.forward import Prepared
from lookalike.training.objective import Objective
from lookalike.training.randomness import PassRandom

__all__ = ["CachedPasses", "backward_by_chunks"]


class Pass(NamedTuple):
    """A chunk that was passed through the network: its number, its inputs, and its first row."""

    number: int
    inputs: Tensor
    embeddings: Tensor
    start: int


class CachedPasses:
    """A model that embeds chunk by chunk and keeps the inputs, but no graph.

    The embeddings are leaves; :meth:`backward` propagates their gradients to the weights.
    """

    def __init__(self, model: Prepared, rows: int, random: PassRandom) -> None:
        self.model = model
        self.rows = rows
        self.random = random
        self.passes: list[Pass] = []

    def __call__(self, images: Tensor) -> Tensor:
        """Images to embeddings."""
        chunks = torch.split(images, self.rows)
        numbers = range(len(self.passes), len(self.passes) + len(chunks))
        with torch.no_grad():
            embedded = [self._through(n, c) for n, c in zip(numbers, chunks, strict=True)]
        embeddings = torch.cat(embedded).requires_grad_()
        for place, (number, chunk) in enumerate(zip(numbers, chunks, strict=True)):
            self.passes.append(Pass(number, chunk, embeddings, place * self.rows))
        return embeddings

    def features(self, images: Tensor) -> Tensor:
        """Not available: feature maps would not fit into memory."""
        raise NotImplementedError

    def embed(self, features: Tensor) -> Tensor:
        """Not available."""
        raise NotImplementedError

    @property
    def pooling(self) -> nn.Module:
        """Not available."""
        raise NotImplementedError

    def backward(self, fabric: Fabric) -> None:
        """Pass every chunk again and add its part to the gradients of the weights.

        The gradients that come in are scaled where the precision scales them, and Fabric scales
        once more; scales are powers of two, so that dividing loses nothing.
        """
        scaler = getattr(fabric.strategy.precision, "scaler", None)
        scale = 1.0 if scaler is None else scaler.get_scale()
        buffers = list(self.model.passes.buffers())
        tracked = [buffer.clone() for buffer in buffers]
        passes: Any = self.model.passes
        for done, (number, inputs, embeddings, start) in enumerate(self.passes, 1):
            gradient = torch.zeros_like(embeddings) if embeddings.grad is None else embeddings.grad
            waiting = world_size() > 1 and done < len(self.passes)
            with fabric.no_backward_sync(passes) if waiting else nullcontext():
                again = self._through(number, inputs)
                fabric.backward(again, gradient=gradient[start : start + self.rows] / scale)
        for buffer, value in zip(buffers, tracked, strict=True):
            buffer.copy_(value)

    def _through(self, number: int, inputs: Tensor) -> Tensor:
        with self.random.at(number):
            return self.model(inputs)


def backward_by_chunks(
    fabric: Fabric,
    objective: Objective,
    model: Prepared,
    images: Tensor,
    labels: Tensor,
    *,
    chunks: int,
    random: PassRandom,
) -> tuple[Tensor, Tensor]:
    """The loss of a batch and its embeddings; the parameters have their gradients."""
    cached = CachedPasses(model, -(-len(images) // chunks), random)
    loss, embeddings = objective(cached, images, labels)
    fabric.backward(loss)
    cached.backward(fabric)
    return loss, embeddings
