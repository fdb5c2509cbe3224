"""What a step minimises: the loss with its miner, its memory and its mixes, on one batch."""

import inspect
from typing import Any

from torch import Tensor, nn

from lookalike import losses, miners
from lookalike.config import PartConfig, RunConfig
from lookalike.errors import BadInput
from lookalike.memory import CrossBatchMemory
from lookalike.memory.cross_batch import refuse_unless_paired
from lookalike.mixing import Mixing, refuse_unless_additive
from lookalike.registry import LOSSES, MINERS, SAMPLERS, Registry
from lookalike.training.distributed.gather import gather_rows, shared_out
from lookalike.training.forward import Embedder

__all__ = ["Objective", "build_objective", "check_parts", "sized"]


class Objective(nn.Module):
    """images and labels in, one number out; its parameters are what the loss learns.

    ``loss`` may be a ``CrossBatchMemory`` round the loss, which then has the miner too. With
    ``mixing`` the loss is that of the batch plus that of its mixes.
    """

    def __init__(
        self, loss: nn.Module, miner: nn.Module | None = None, mixing: Mixing | None = None
    ) -> None:
        super().__init__()
        self.loss = loss
        self.miner = miner
        self.mixing = mixing

    def forward(self, model: Embedder, images: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """The loss of a batch, and its embeddings.

        Of several processes each has its part of the images; labels, loss and embeddings are those
        of the whole batch in every process.

        Labels may be on the CPU when the images are not: how many mixes there are follows from
        them, and nothing has to wait for the device.
        """
        features = None
        if self.mixing is not None and self.mixing.where == "feature":
            features = model.features(images)
        own = model(images) if features is None else model.embed(features)
        embeddings = gather_rows(own, labels.shape[0])
        known = labels.to(embeddings.device, non_blocking=True)
        value: Tensor
        if isinstance(self.loss, CrossBatchMemory):
            value = self.loss(embeddings, known)
        else:
            mined = None if self.miner is None else self.miner(embeddings, known)
            if mined is not None and not isinstance(self.loss, losses.Loss):
                mined = tuple(mined)  # losses of other packages know plain indices only
            value = self.loss(embeddings, known, mined)
        if self.mixing is not None:
            value = value + self._mixed(self.mixing, model, images, features, embeddings, labels)
        return value, embeddings

    def _mixed(
        self,
        mixing: Mixing,
        model: Embedder,
        images: Tensor,
        features: Tensor | None,
        embeddings: Tensor,
        labels: Tensor,
    ) -> Tensor:
        loss = self.loss.loss if isinstance(self.loss, CrossBatchMemory) else self.loss
        if mixing.where == "embed":
            return mixing(loss, embeddings, labels)
        number = labels.shape[0]
        if features is None:
            whole = gather_rows(images, number)
            return mixing(loss, embeddings, labels, whole, model, distribute=shared_out)
        whole = gather_rows(features, number)
        return mixing(
            loss,
            embeddings,
            labels,
            whole,
            model.embed,
            pool=model.pooling,
            distribute=shared_out,
        )


def build_objective(config: RunConfig, class_count: int, embedding_size: int) -> Objective:
    """The parts that a configuration names."""
    arguments = sized(config.loss.name, config.loss.arguments, class_count, embedding_size)
    loss = losses.create(config.loss.name, **arguments)
    miner = None
    if config.miner is not None:
        miner = miners.create(config.miner.name, **config.miner.arguments)
    mixing = None
    if config.mix is not None:
        mixing = Mixing(**config.mix.model_dump())
        mixing.check(loss)
    if config.memory is None:
        return Objective(loss, miner, mixing)
    memory = config.memory
    remembering = CrossBatchMemory(loss, embedding_size, memory.size, miner, memory.start)
    return Objective(remembering, mixing=mixing)


def sized(
    loss: str, given: dict[str, Any], class_count: int, embedding_size: int
) -> dict[str, Any]:
    """The arguments of a loss with the number of classes and the embedding's size filled in.

    Where the loss must have them, or where ``given`` says ``auto`` (``loss.num_classes=auto``: a
    margin loss with one beta a class).
    """
    sizes = {"num_classes": class_count, "embedding_size": embedding_size}
    wanted = inspect.signature(LOSSES.find(loss).build).parameters
    needed = {name for name, p in wanted.items() if p.default is inspect.Parameter.empty}
    asked = {name for name, value in given.items() if isinstance(value, str) and value == "auto"}
    filled = {name: size for name, size in sizes.items() if name in asked | needed - set(given)}
    return given | filled


def check_parts(config: RunConfig) -> None:
    """Refuse unknown parts and arguments, and parts that do not fit, before anything is read."""
    parts: list[tuple[Registry, PartConfig | None]] = [
        (LOSSES, config.loss),
        (MINERS, config.miner),
        (SAMPLERS, config.sampler),
    ]
    for own in ("labels", "super_labels", "seed", "rank", "world_size"):
        if own in config.sampler.arguments:
            raise BadInput(f"sampler.{own} is the run's own business and cannot be set")
    for registry, part in parts:
        if part is not None:
            arguments: dict[str, Any] = part.arguments
            registry.check(part.name, arguments)
    if config.mix is not None:
        refuse_unless_additive(LOSSES.find(config.loss.name).build)
    if config.memory is not None:
        refuse_unless_paired(LOSSES.find(config.loss.name).build)
        batch = int(config.sampler.arguments.get("batch_size", 0))
        if batch > config.memory.size:
            raise BadInput(f"memory.size = {config.memory.size} cannot hold a batch of {batch}")
