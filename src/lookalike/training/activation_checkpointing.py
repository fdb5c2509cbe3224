"""Activation checkpointing: blocks recompute their activations in the backward pass.

Chen et al., Training Deep Nets with Sublinear Memory Cost, 2016. The gradients are the same; batch
norm's running statistics are updated once, as without.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from torch import nn
from torch.fx import GraphModule
from torch.nn.modules.batchnorm import _BatchNorm
from torch.utils.checkpoint import checkpoint

from lookalike.errors import BadInput
from lookalike.models import EmbeddingModel


def recompute_blocks(model: EmbeddingModel) -> int:
    """Make the blocks of the backbone recompute their activations; returns their number."""
    found = list(blocks(model.backbone.network))
    if not found:
        raise BadInput(
            "train.activation_checkpointing finds no blocks in this network; networks of timm "
            "have them (model.network=timm:NAME)"
        )
    for block in found:
        make_recomputing(block)
    return len(found)


def blocks(network: nn.Module) -> Iterator[nn.Module]:
    """The parts, with weights, of the outermost sequences of a network."""
    if isinstance(network, GraphModule):  # it calls the layers inside its blocks one by one
        return
    for child in network.children():
        if isinstance(child, nn.Sequential) and len(child) > 1:
            yield from (part for part in child if any(True for _ in part.parameters()))
        else:
            yield from blocks(child)


def make_recomputing(block: nn.Module) -> None:
    """Replace the block's ``forward``; names and weights stay as they are."""
    plain = block.forward
    norms = [layer for layer in block.modules() if isinstance(layer, _BatchNorm)]

    def contexts() -> tuple[AbstractContextManager[None], AbstractContextManager[None]]:
        return nullcontext(), frozen_statistics(norms)

    def forward(*inputs: Any) -> Any:
        if not block.training:
            return plain(*inputs)
        return checkpoint(plain, *inputs, use_reentrant=False, context_fn=contexts)

    block.forward = forward


@contextmanager
def frozen_statistics(norms: list[_BatchNorm]) -> Iterator[None]:
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
