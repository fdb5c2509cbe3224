"""Shards made on a Ray cluster.

Processes with a copy of the model each make one shard after the other and send it to the driver,
which writes it: so a shard appears once and whole, and nodes need the pictures but not the folder
of the shards. Ray makes a shard again whose worker or node died. (Ray Data has no
place where a finished block is known to be written exactly once, nor a way to leave out finished
ones, so it would not replace the shards' own bookkeeping.)
"""

import tempfile
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from lookalike.errors import LookalikeError
from lookalike.inference.bulk.job import Executor, Made, Options, embed_shards
from lookalike.inference.bulk.manifest import Manifest
from lookalike.inference.bulk.source import Source
from lookalike.inference.embedder import Embedder
from lookalike.progress import Watcher
from lookalike.study.ray import RayExecutor

__all__ = ["on_ray"]

POLL_SECONDS = 1.0


@dataclass(frozen=True)
class PackedModel:
    """A model as what its folder holds, for any process."""

    settings: str
    weights: bytes

    @classmethod
    def of(cls, embedder: Embedder) -> "PackedModel":
        """Pack a model."""
        with tempfile.TemporaryDirectory() as folder:
            embedder.save(folder)
            settings = (Path(folder) / "model.json").read_text(encoding="utf-8")
            return cls(settings, (Path(folder) / "weights.safetensors").read_bytes())

    def open(self) -> Embedder:
        """The model."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "weights.safetensors"
            path.write_bytes(self.weights)
            return Embedder.restore(self.settings, path, "the driver's model")


class EmbedActor:
    """Makes shards on some node of the cluster."""

    def __init__(
        self, threads: int, model: PackedModel, source: Source, options: Options, manifest: Manifest
    ) -> None:
        torch.set_num_threads(threads)
        self.embedder = model.open()
        self.source, self.manifest = source, manifest
        self.options = replace(options, threads=threads)

    def run(self, number: int) -> Made | str:
        """Make one shard; a sentence where that is impossible."""
        try:
            made = embed_shards(
                self.embedder, self.source, self.options, self.manifest, [number], lambda _: None
            )
            return next(made)
        except LookalikeError as error:
            return str(error)


def on_ray(
    address: str | None = None,
    *,
    workers: int | None = None,
    cpus: float = 1,
    gpus: float = 0,
    watcher: Watcher | None = None,
) -> Executor:
    """What makes shards on a Ray cluster.

    Args:
        address: Of the cluster; None: this machine.
        workers: Shards at the same time; None: as many as there is room for.
        cpus: CPUs of one worker: threads that decode and compute.
        gpus: GPUs of one worker.
        watcher: Is told what happens to workers.

    Returns:
        For the argument ``executor`` of :func:`lookalike.inference.bulk.job.embed`.
    """
    start = partial(
        RayExecutor,
        address,
        workers=workers,
        cpus=cpus,
        gpus=gpus,
        watcher=watcher,
        actor=EmbedActor,
    )
    return partial(_run, start)


def _run(
    start: Callable[[], RayExecutor],
    embedder: Embedder,
    source: Source,
    options: Options,
    manifest: Manifest,
    shards: Sequence[int],
    advance: Callable[[int], None],
) -> Iterator[Made]:
    if not shards:
        return
    waiting = deque(shards)
    running = 0
    with start() as executor:
        put = executor.ray.put
        executor.arguments = (
            put(PackedModel.of(embedder)),
            put(source),
            put(options),
            put(manifest),
        )
        while waiting or running:
            while waiting and executor.slots > 0:
                executor.submit(waiting.popleft())
                running += 1
            for outcome in executor.wait(POLL_SECONDS):
                running -= 1
                number: Any = outcome.task
                made: Any = outcome.record
                if isinstance(made, str):
                    raise LookalikeError(made)
                if made is None:
                    raise LookalikeError(f"shard {number} cannot be made: {outcome.reason}")
                advance(len(manifest.rows_of(number)))
                yield made
