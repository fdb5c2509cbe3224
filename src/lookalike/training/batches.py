"""From item numbers to batches of images, one step ahead of the network."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from lookalike.data import Subset
from lookalike.models import EmbeddingModel
from lookalike.samplers import BatchSampler
from lookalike.training.distributed.gather import gather_rows, in_step
from lookalike.training.distributed.ranks import own_part, world_size
from lookalike.training.sources import Source

__all__ = ["TrainingBatches", "ahead", "embed", "embed_together", "step_generator"]

Item = TypeVar("Item")
Prepared = TypeVar("Prepared")


@dataclass
class TrainingBatches:
    """An endless, resumable stream of augmented batches.

    The augmentation of step k draws from a generator seeded by (seed, k) alone. Item numbers are
    drawn ahead; :meth:`state_dict` therefore keeps those that were not given out yet. Of several
    processes each draws the same item numbers and makes the images of its own part.

    ``at_a_time`` batches are drawn and read in one go, which pays where reading is quick. A sampler
    that looks at embeddings is asked for one batch at a time all the same.
    """

    subset: Subset
    source: Source
    sampler: BatchSampler
    seed: int
    device: torch.device
    step: int = 0
    at_a_time: int = 1
    drawn: list[list[int]] = field(default_factory=list, init=False)

    def __iter__(self) -> Iterator[tuple[list[int], Tensor]]:
        for numbered, batches in ahead(self._numbered(), self._augmented, self.device):
            for (_, positions), images in zip(numbered, batches, strict=True):
                self.drawn.pop(0)
                yield positions, images

    def state_dict(self) -> dict[str, Any]:
        """The sampler's place and the batches that were drawn ahead of it."""
        return {"sampler": self.sampler.state_dict(), "drawn": list(self.drawn)}

    def load_state_dict(self, state: dict[str, Any], step: int) -> None:
        """Go on at ``step``."""
        self.sampler.load_state_dict(state["sampler"])
        self.drawn = list(state["drawn"])
        self.step = step

    def _numbered(self) -> Iterator[list[tuple[int, list[int]]]]:
        """Item numbers with their steps, some steps at a time."""
        steps = count(self.step)
        if self.drawn:
            yield [(next(steps), positions) for positions in self.drawn]
        together = 1 if self.sampler.uses_embeddings else self.at_a_time
        waiting: list[tuple[int, list[int]]] = []
        while True:
            for positions in self.sampler:
                self.drawn.append(positions)
                waiting.append((next(steps), positions))
                if len(waiting) == together:
                    yield waiting
                    waiting = []

    def _augmented(self, numbered: list[tuple[int, list[int]]]) -> list[Tensor]:
        return [self._batch(step, positions) for step, positions in numbered]

    def _batch(self, step: int, positions: list[int]) -> Tensor:
        generator = step_generator(self.seed, step)
        part = own_part(len(positions))
        return self.source.training(self.subset.indices[positions[part.rows]], generator, part)


def step_generator(seed: int, step: int) -> torch.Generator:
    """Random numbers that depend on a seed and a step, and on nothing else."""
    state = np.random.SeedSequence([seed, step]).generate_state(1, np.uint64)[0]
    return torch.Generator().manual_seed(int(state >> np.uint64(1)))


def embed_together(
    model: EmbeddingModel,
    subset: Subset,
    source: Source,
    *,
    batch_size: int = 256,
    progress: Callable[[int, int], None] | None = None,
) -> Tensor:
    """As :func:`embed`; of several processes each embeds a part, and all get the whole."""
    part = own_part(len(subset))
    if world_size() == 1 or part.whole < world_size():
        return embed(model, subset, source, batch_size=batch_size, progress=progress)
    in_step(model.buffers())
    own = replace(subset, indices=subset.indices[part.rows], labels=subset.labels[part.rows])
    rows = embed(model, own, source, batch_size=batch_size, progress=progress)
    device = next(model.parameters(), rows).device
    return gather_rows(rows.to(device), part.whole).cpu()


@torch.no_grad()
def embed(
    model: EmbeddingModel,
    subset: Subset,
    source: Source,
    *,
    batch_size: int = 256,
    progress: Callable[[int, int], None] | None = None,
) -> Tensor:
    """The embedding of every image of a subset, in float32 on the CPU."""
    was_training = model.training
    model.eval()
    like = next(model.parameters(), torch.empty(0))
    slices = [subset.indices[i : i + batch_size] for i in range(0, len(subset.indices), batch_size)]
    rows: list[Tensor] = []
    done = 0
    for indices, images in ahead(slices, source.testing, like.device):
        rows.append(model(images.to(like)).float().cpu())
        done += len(indices)
        if progress:
            progress(done, len(subset.indices))
    model.train(was_training)
    return torch.cat(rows)


def ahead(
    items: Iterable[Item], prepare: Callable[[Item], Prepared], device: torch.device
) -> Iterator[tuple[Item, Prepared]]:
    """Each item with what ``prepare`` makes of it; items are drawn exactly one ahead.

    Where the network runs on another device, the next one is prepared meanwhile by a thread. On
    the CPU that thread would only take the cores from the network.
    """
    with ThreadPoolExecutor(1) as thread:
        later = device.type != "cpu"
        waiting = None
        for item in items:
            made = thread.submit(prepare, item).result if later else partial(prepare, item)
            if waiting is not None:
                yield waiting[0], waiting[1]()
            waiting = item, made
        if waiting is not None:
            yield waiting[0], waiting[1]()
