"""What a step minimises: the loss with its miner, its memory and its mixes, on one batch."""

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from lookalike import losses, miners
from lookalike.config import RunConfig
from lookalike.errors import BadInput
from lookalike.losses.wrappers import as_loss
from lookalike.memory import EmbeddingMemory
from lookalike.miners.base import as_miner
from lookalike.mixing import Mixing
from lookalike.ops.device import autocast
from lookalike.registry import LOSSES, MINERS, SAMPLERS
from lookalike.training.distributed.gather import gather_rows, shared_out

Network: TypeAlias = Callable[..., Tensor]
"""Images to embeddings, and for mixed features their ``part``: a ``ForwardDispatch``."""


class Objective(nn.Module):
    """Images and labels in, one number out; its parameters are what the loss learns.

    The relations of the batch are built once; the memory adds candidates, the miner narrows them,
    the loss reads them. With ``mixing`` the loss is that of the batch plus that of its mixes.
    """

    def __init__(
        self,
        loss: nn.Module,
        miner: nn.Module | None = None,
        mixing: Mixing | None = None,
        memory: EmbeddingMemory | None = None,
    ) -> None:
        super().__init__()
        if mixing is not None:
            mixing.check(loss)
        self.loss = as_loss(loss)
        self.miner = None if miner is None else as_miner(miner)
        self.mixing = mixing
        self.memory = memory

    def forward(self, network: Network, images: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """The loss of a batch, and its embeddings.

        Of several processes each has its part of the images; labels, loss and embeddings are those
        of the whole batch in every process. Labels may be on the CPU when the images are not: how
        many mixes there are follows from them, and nothing has to wait for the device.
        """
        features = None
        if self.mixing is not None and self.mixing.where == "feature":
            features = network(images, "features")
        own = network(images) if features is None else network(features, "embed")
        embeddings = gather_rows(own, labels.shape[0])
        value = self.of_batch(embeddings, labels)
        if self.mixing is not None:
            value = value + self._mixed(self.mixing, network, images, features, embeddings, labels)
        return value, embeddings

    def of_batch(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """The loss of the embeddings of a batch, without mixes."""
        loss, miner = self.loss, self.miner
        with autocast(embeddings.device, enabled=False):
            relate = loss.relations if self.memory is None else partial(self.memory.relations, loss)
            relations = relate(embeddings, labels)
            if miner is None:
                return loss.total_loss(relations)
            mined = miner.choose(loss.image_relations(relations, miner.distance))
            return loss.total_loss(relations, mined)

    def _mixed(
        self,
        mixing: Mixing,
        network: Any,
        images: Tensor,
        features: Tensor | None,
        embeddings: Tensor,
        labels: Tensor,
    ) -> Tensor:
        if mixing.where == "embed":
            return mixing(self.loss, embeddings, labels)
        embed, pool = network, None
        if features is not None:
            embed, pool = partial(network, part="embed"), network.pooling
        whole = gather_rows(images if features is None else features, labels.shape[0])
        return mixing(self.loss, embeddings, labels, whole, embed, pool=pool, distribute=shared_out)


def build_objective(config: RunConfig, class_count: int, embedding_size: int) -> Objective:
    """The parts that a configuration names."""
    arguments = fill_loss_sizes(
        config.loss.name, config.loss.arguments, class_count, embedding_size
    )
    loss = losses.create(config.loss.name, **arguments)
    miner = None
    if config.miner is not None:
        miner = miners.create(config.miner.name, **config.miner.arguments)
    mixing = None if config.mix is None else Mixing(**config.mix.model_dump())
    memory = None
    if config.memory is not None:
        memory = EmbeddingMemory(embedding_size, config.memory.size, config.memory.start)
    return Objective(loss, miner, mixing, memory)


def fill_loss_sizes(
    loss: str, given: dict[str, Any], class_count: int, embedding_size: int
) -> dict[str, Any]:
    """The arguments of a loss with the number of classes and the embedding's size filled in.

    Where the loss must have them, or where ``given`` says ``auto`` (``loss.num_classes=auto``: a
    margin loss with one beta per class).
    """
    sizes = {"num_classes": class_count, "embedding_size": embedding_size}
    wanted = inspect.signature(LOSSES.find(loss).build).parameters
    needed = {name for name, p in wanted.items() if p.default is inspect.Parameter.empty}
    asked = {name for name, value in given.items() if isinstance(value, str) and value == "auto"}
    filled = {name: size for name, size in sizes.items() if name in asked | needed - set(given)}
    return given | filled


def check_parts(config: RunConfig) -> None:
    """Refuse unknown parts and arguments, and parts that do not fit, before anything is read."""
    for own in ("labels", "super_labels", "seed"):
        if own in config.sampler.arguments:
            raise BadInput(f"sampler.{own} is set by the run and cannot be configured")
    for registry, part in (LOSSES, config.loss), (MINERS, config.miner), (SAMPLERS, config.sampler):
        if part is not None:
            registry.check(part.name, part.arguments)
    with torch.random.fork_rng(devices=[]):
        build_objective(config, class_count=2, embedding_size=2)
    if config.memory is not None:
        batch = int(config.sampler.arguments.get("batch_size", 0))
        if batch > config.memory.size:
            raise BadInput(f"memory.size = {config.memory.size} cannot hold a batch of {batch}")
