"""Shards embedded on a Ray cluster.

Plain actors, each with a copy of the model, embed one shard after the other and send it to the
driver, which commits it: nodes need the pictures but not the index. Ray embeds a shard again whose
worker or node died. (Ray Data has no place where a finished block is known to be committed exactly
once, nor a way to leave out finished ones.)
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch

from lookalike.errors import LookalikeError
from lookalike.inference.embedder import Embedder
from lookalike.inference.job import Executor, Options, Rows, Window, embed_here
from lookalike.inference.source import Source
from lookalike.progress import Watcher
from lookalike.study.ray import RayExecutor

__all__ = ["on_ray"]

POLL_SECONDS = 1.0


class EmbedActor:
    """Embeds shards on some node of the cluster."""

    def __init__(
        self,
        threads: int,
        model: tuple[str, bytes],
        source: Source,
        options: Options,
        shards: Sequence[Sequence[Rows]],
    ) -> None:
        torch.set_num_threads(threads)
        self.embedder = Embedder.unpack(*model, "the driver's model")
        self.source, self.shards = source, shards
        self.options = replace(options, threads=threads)

    def run(self, number: int) -> list[Window] | str:
        """Embed one shard; a sentence where that is impossible."""
        try:
            shard = self.shards[number]
            return list(embed_here(self.embedder, self.source, self.options, [shard]))
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
    """What embeds shards on a Ray cluster.

    Args:
        address: Of the cluster; None: this machine.
        workers: Shards at the same time; None: as many as there is room for.
        cpus: CPUs of one worker: threads that decode and compute.
        gpus: GPUs of one worker.
        watcher: Is told what happens to workers.

    Returns:
        For the argument ``executor`` of :func:`lookalike.search.ingest.embed_into`.
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
    shards: Sequence[Sequence[Rows]],
) -> Iterator[Window]:
    if not shards:
        return
    waiting = deque(range(len(shards)))
    running = 0
    with start() as executor:
        executor.arguments = tuple(
            map(executor.ray.put, (embedder.pack(), source, options, shards))
        )
        while waiting or running:
            while waiting and executor.slots > 0:
                executor.submit(waiting.popleft())
                running += 1
            for outcome in executor.wait(POLL_SECONDS):
                running -= 1
                number: Any = outcome.task
                found: Any = outcome.record
                if isinstance(found, str):
                    raise LookalikeError(found)
                if found is None:
                    raise LookalikeError(f"shard {number} cannot be embedded: {outcome.reason}")
                yield from found
