"""From image indices to batches of inputs, and from subsets to embeddings."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Any, Protocol, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lookalike.data import ImageStore, Normalisation, Part, Preset, Subset
from lookalike.models import EmbeddingModel
from lookalike.samplers import BatchSampler
from lookalike.training.distributed.gather import broadcast_from_first, gather_rows
from lookalike.training.distributed.ranks import own_part, world_size

Item = TypeVar("Item")
Prepared = TypeVar("Prepared")


class Source(Protocol):
    """Inputs of a model, by image index."""

    def training(
        self, indices: NDArray[np.int64], generator: torch.Generator, part: Part | None = None
    ) -> Tensor:
        """A random batch to learn from, drawn by ``generator``: ``part`` of a larger one."""
        ...

    def testing(self, indices: NDArray[np.int64]) -> Tensor:
        """A batch to embed, without randomness."""
        ...


@dataclass(frozen=True)
class Pixels:
    """Images from the cache, augmented or not, as the network expects them."""

    store: ImageStore
    preset: Preset
    normalisation: Normalisation
    layout: torch.memory_format = torch.contiguous_format

    def training(
        self, indices: NDArray[np.int64], generator: torch.Generator, part: Part | None = None
    ) -> Tensor:
        """Augmented images."""
        pixels = self.store.read_batch(indices)
        return self.preset.train(pixels, generator, self.normalisation, self.layout, part)

    def testing(self, indices: NDArray[np.int64]) -> Tensor:
        """Images by the test transform."""
        return self.preset.test(self.store.read_batch(indices), self.normalisation, self.layout)


@dataclass
class TrainingBatches:
    """An endless, resumable stream of augmented batches.

    The augmentation of step k draws from a generator seeded by (seed, k) alone. Positions are drawn
    ahead; :meth:`state_dict` therefore keeps those that were not yielded yet. With several
    processes, each draws the same positions and reads the images of its own part.

    ``per_read`` batches are drawn and read together, which pays where reading is quick. A sampler
    that uses embeddings still draws one batch at a time.
    """

    subset: Subset
    source: Source
    sampler: BatchSampler
    seed: int
    device: torch.device
    step: int = 0
    per_read: int = 1
    drawn: list[list[int]] = field(default_factory=list, init=False)

    def __iter__(self) -> Iterator[tuple[list[int], Tensor]]:
        for numbered, batches in prefetch(self._numbered(), self._augmented, self.device):
            for (_, positions), images in zip(numbered, batches, strict=True):
                self.drawn.pop(0)
                yield positions, images

    def state_dict(self) -> dict[str, Any]:
        """The state of the sampler, and the batches that were drawn ahead."""
        return {"sampler": self.sampler.state_dict(), "drawn": list(self.drawn)}

    def load_state_dict(self, state: dict[str, Any], step: int) -> None:
        """Continue at ``step``."""
        self.sampler.load_state_dict(state["sampler"])
        self.drawn = list(state["drawn"])
        self.step = step

    def _numbered(self) -> Iterator[list[tuple[int, list[int]]]]:
        """Positions with their steps, ``per_read`` batches at a time."""
        steps = count(self.step)
        if self.drawn:
            yield [(next(steps), positions) for positions in self.drawn]
        together = 1 if self.sampler.uses_embeddings else self.per_read
        waiting: list[tuple[int, list[int]]] = []
        while True:
            for positions in self.sampler:
                self.drawn.append(positions)
                waiting.append((next(steps), positions))
                if len(waiting) == together:
                    yield waiting
                    waiting = []

    def _augmented(self, numbered: list[tuple[int, list[int]]]) -> list[Tensor]:
        batches = []
        for step, positions in numbered:
            part = own_part(len(positions))
            own = self.subset.indices[positions[part.rows]]
            batches.append(self.source.training(own, step_generator(self.seed, step), part))
        return batches


def step_generator(seed: int, step: int) -> torch.Generator:
    """A random generator that depends on a seed and a step only."""
    state = np.random.SeedSequence([seed, step]).generate_state(1, np.uint64)[0]
    return torch.Generator().manual_seed(int(state >> np.uint64(1)))


@torch.no_grad()
def embed(
    model: EmbeddingModel,
    subset: Subset,
    source: Source,
    *,
    batch_size: int = 256,
    progress: Callable[[int, int], None] | None = None,
    distributed: bool = False,
) -> Tensor:
    """The embedding of every image of a subset.

    Args:
        model: The model; it is in evaluation mode meanwhile.
        subset: The images.
        source: Where their inputs come from.
        batch_size: Images per pass.
        progress: Is called with the images embedded so far, and all.
        distributed: Whether each of several processes embeds a part, and all get the whole.

    Returns:
        Embeddings [N, dim] in float32 on the CPU.
    """
    shared = distributed and 1 < world_size() <= len(subset)
    own = subset.indices[own_part(len(subset)).rows] if shared else subset.indices
    if shared:
        broadcast_from_first(model.buffers())
    was_training = model.training
    model.eval()
    like = next(model.parameters(), torch.empty(0))
    slices = [own[i : i + batch_size] for i in range(0, len(own), batch_size)]
    rows: list[Tensor] = []
    done = 0
    for indices, images in prefetch(slices, source.testing, like.device):
        rows.append(model(images.to(like)).float().cpu())
        done += len(indices)
        if progress:
            progress(done, len(own))
    model.train(was_training)
    found = torch.cat(rows)
    return gather_rows(found.to(like.device), len(subset)).cpu() if shared else found


def prefetch(
    items: Iterable[Item], prepare: Callable[[Item], Prepared], device: torch.device
) -> Iterator[tuple[Item, Prepared]]:
    """Each item with what ``prepare`` makes of it; items are drawn exactly one ahead.

    Where the network runs on another device, a thread prepares the next item meanwhile. On the CPU
    that thread would only take the cores from the network.
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
