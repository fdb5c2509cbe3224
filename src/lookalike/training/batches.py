"""From item numbers to batches of images, one step ahead of the network."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from lookalike.data import Subset
from lookalike.models import EmbeddingModel
from lookalike.samplers import BatchSampler
from lookalike.training.gather import gather_rows, in_step
from lookalike.training.ranks import own_part, sizes_of, world_size
from lookalike.training.sources import Source

__all__ = ["TrainingBatches", "ahead", "embed", "embed_together", "step_generator"]

Item = TypeVar("Item")
Prepared = TypeVar("Prepared")


@dataclass
class TrainingBatches:
    """An endless, resumable stream of augmented batches.

    The augmentation of step k draws from a generator seeded by (seed, k) alone. One batch is
    always drawn ahead; :meth:`state_dict` therefore keeps its item numbers. Of several processes
    each draws the same item numbers and makes the images of its own part.
    """

    subset: Subset
    source: Source
    sampler: BatchSampler
    seed: int
    device: torch.device
    step: int = 0
    drawn: list[int] | None = field(default=None, init=False)

    def __iter__(self) -> Iterator[tuple[list[int], Tensor]]:
        for (_, positions), images in ahead(self._numbered(), self._augmented, self.device):
            yield positions, images

    def state_dict(self) -> dict[str, Any]:
        """The sampler's place and the batch that was drawn ahead of it."""
        return {"sampler": self.sampler.state_dict(), "drawn": self.drawn}

    def load_state_dict(self, state: dict[str, Any], step: int) -> None:
        """Go on at ``step``."""
        self.sampler.load_state_dict(state["sampler"])
        self.drawn = state["drawn"]
        self.step = step

    def _numbered(self) -> Iterator[tuple[int, list[int]]]:
        step = self.step
        if self.drawn is not None:
            yield step, self.drawn
            step += 1
        while True:
            for positions in self.sampler:
                self.drawn = positions
                yield step, positions
                step += 1

    def _augmented(self, numbered: tuple[int, list[int]]) -> Tensor:
        step, positions = numbered
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
    return gather_rows(rows.to(device), sizes_of(part.whole)).cpu()


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
