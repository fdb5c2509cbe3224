"""What a step minimises: the loss with its miner, on one batch."""

import inspect
from typing import Any

from torch import Tensor, nn

from lookalike import losses, miners
from lookalike.config import PartConfig, RunConfig
from lookalike.models import EmbeddingModel
from lookalike.registry import LOSSES, MINERS, SAMPLERS, Registry

__all__ = ["Objective", "build_objective", "check_parts"]


class Objective(nn.Module):
    """images and labels in, one number out; its parameters are what the loss learns."""

    def __init__(self, loss: nn.Module, miner: nn.Module | None) -> None:
        super().__init__()
        self.loss = loss
        self.miner = miner

    def forward(
        self, model: EmbeddingModel, images: Tensor, labels: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The loss of a batch, and its embeddings."""
        embeddings = model(images)
        mined = None if self.miner is None else self.miner(embeddings, labels)
        value: Tensor = self.loss(embeddings, labels, mined)
        return value, embeddings


def build_objective(config: RunConfig, class_count: int, embedding_size: int) -> Objective:
    """The parts that a configuration names; sizes are filled in where a loss wants them."""
    sizes = {"num_classes": class_count, "embedding_size": embedding_size}
    wanted = inspect.signature(LOSSES.find(config.loss.name).build).parameters
    filled = {name: size for name, size in sizes.items() if name in wanted}
    loss = losses.create(config.loss.name, **(filled | config.loss.arguments))
    miner = None
    if config.miner is not None:
        miner = miners.create(config.miner.name, **config.miner.arguments)
    return Objective(loss, miner)


def check_parts(config: RunConfig) -> None:
    """Refuse unknown parts and arguments before anything is read or written."""
    parts: list[tuple[Registry, PartConfig | None]] = [
        (LOSSES, config.loss),
        (MINERS, config.miner),
        (SAMPLERS, config.sampler),
    ]
    for registry, part in parts:
        if part is not None:
            arguments: dict[str, Any] = part.arguments
            registry.check(part.name, arguments)
