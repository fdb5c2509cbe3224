"""From image indices to batches of inputs, and from subsets to embeddings."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from lookalike.data import ImageStore, Normalisation, Preset, Subset
from lookalike.data.image_random import ImageRandom
from lookalike.samplers import BatchSampler
from lookalike.training.distributed.gather import broadcast_from_first, gather_rows
from lookalike.training.distributed.ranks import own_part, sizes_of, world_size
from lookalike.training.feeding import Feeding, UnreadBatch, feed


class InputSource(Protocol):
    """Inputs of a model, by image index; several threads may read at a time.

    Batches are read and travel compactly; :meth:`inputs` completes them where the network is.
    """

    def training(self, indices: NDArray[np.int64], random: ImageRandom) -> Tensor:
        """A random batch to learn from."""
        ...

    def testing(self, indices: NDArray[np.int64]) -> Tensor:
        """A batch to embed, without randomness."""
        ...

    def inputs(self, batch: Tensor) -> Tensor:
        """What the model takes, from a batch that was read, wherever it is."""
        ...


@dataclass(frozen=True)
class PixelSource:
    """Images from the cache, augmented or not, as the network expects them."""

    store: ImageStore
    preset: Preset
    normalisation: Normalisation
    layout: torch.memory_format = torch.contiguous_format

    def training(self, indices: NDArray[np.int64], random: ImageRandom) -> Tensor:
        """Augmented images, 0..255."""
        return self.preset.augment(self.store.read_batch(indices), random)

    def testing(self, indices: NDArray[np.int64]) -> Tensor:
        """Images by the test transform, 0..255."""
        return self.preset.centre(self.store.read_batch(indices))

    def inputs(self, batch: Tensor) -> Tensor:
        """The images normalised as the network expects them."""
        return self.normalisation(batch, self.layout)


@dataclass
class TrainingBatches:
    """An endless, resumable stream of augmented batches.

    The augmentation of an image depends on the seed, the step and its place in the batch alone.
    Positions are drawn ahead; :meth:`state_dict` therefore keeps those that were not yielded yet.
    With several processes, each draws the same positions and reads the images of its own part.

    ``per_read`` batches are drawn and read together, which pays where reading is quick. A sampler
    that uses embeddings still draws one batch at a time, and one ahead.
    """

    subset: Subset
    source: InputSource
    sampler: BatchSampler
    seed: int
    device: torch.device
    step: int = 0
    per_read: int = 1
    feeding: Feeding = field(default_factory=Feeding)
    drawn: list[list[int]] = field(default_factory=list, init=False)

    def __iter__(self) -> Iterator[tuple[list[int], Tensor]]:
        feeding = self.feeding
        if self.sampler.uses_embeddings or self.per_read > 1:
            feeding = replace(feeding, ahead=1)
        for numbered, batches in feed(self._numbered(), self._unread, self.device, feeding):
            for (_, positions), images in zip(numbered, batches, strict=True):
                self.drawn.pop(0)
                self.step += 1
                yield positions, images

    def state_dict(self) -> dict[str, Any]:
        """The next step, the state of the sampler, and the batches that were drawn ahead."""
        return {
            "step": self.step,
            "sampler": self.sampler.state_dict(),
            "drawn": list(self.drawn),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue where another stream was."""
        self.step = state["step"]
        self.sampler.load_state_dict(state["sampler"])
        self.drawn = list(state["drawn"])

    def _numbered(self) -> Iterator[list[tuple[int, list[int]]]]:
        """Positions with their steps, ``per_read`` batches at a time."""
        steps = count(self.step)
        together = 1 if self.sampler.uses_embeddings else self.per_read
        former = [(next(steps), positions) for positions in self.drawn]
        for start in range(0, len(former), together):
            yield former[start : start + together]
        waiting: list[tuple[int, list[int]]] = []
        while True:
            for positions in self.sampler:
                self.drawn.append(positions)
                waiting.append((next(steps), positions))
                if len(waiting) == together:
                    yield waiting
                    waiting = []

    def _unread(self, numbered: list[tuple[int, list[int]]]) -> list[UnreadBatch]:
        batches = []
        for step, positions in numbered:
            rows = own_part(len(positions))
            own = self.subset.indices[positions[rows]]
            read = partial(read_training, self.source, own, self.seed, step, rows.start)
            batches.append(UnreadBatch(len(own), read))
        return batches


def read_training(
    source: InputSource,
    indices: NDArray[np.int64],
    seed: int,
    step: int,
    first: int,
    start: int,
    stop: int,
) -> Tensor:
    """The rows ``start`` to ``stop`` of ``indices``, the first of which is number ``first``."""
    random = ImageRandom(seed, step, range(first + start, first + stop))
    return source.training(indices[start:stop], random)


def unread_test(source: InputSource, indices: NDArray[np.int64]) -> list[UnreadBatch]:
    """A batch to embed."""
    return [UnreadBatch(len(indices), lambda start, stop: source.testing(indices[start:stop]))]


@torch.no_grad()
def embed(
    model: nn.Module,
    subset: Subset,
    source: InputSource,
    *,
    batch_size: int = 256,
    progress: Callable[[int, int], None] | None = None,
    distributed: bool = False,
    autocast: Callable[[], AbstractContextManager[Any]] = nullcontext,
    feeding: Feeding | None = None,
) -> Tensor:
    """The embedding of every image of a subset.

    Args:
        model: The model; it is in evaluation mode meanwhile.
        subset: The images.
        source: Where their inputs come from.
        batch_size: Images per pass.
        progress: Is called with the images embedded so far, and all.
        distributed: Whether each of several processes embeds a part, and all get the whole.
        autocast: Entered for each pass: the precision of the network.
        feeding: How many threads read the images, and how far ahead.

    Returns:
        Embeddings [N, dim] in float32 on the CPU.
    """
    shared = distributed and 1 < world_size() <= len(subset)
    own = subset.indices[own_part(len(subset))] if shared else subset.indices
    count = len(own)
    if shared:
        broadcast_from_first(model.buffers())
        # all make equally many passes: with shared out weights each pass is everyone's
        own = np.pad(own, (0, max(sizes_of(len(subset))) - count), mode="edge")
    was_training = model.training
    model.eval()
    like = next(model.parameters(), torch.empty(0))
    slices = [own[i : i + batch_size] for i in range(0, len(own), batch_size)]
    rows: list[Tensor] = []
    done = 0
    unread = partial(unread_test, source)
    for indices, (images,) in feed(slices, unread, like.device, feeding):
        with autocast():
            embeddings = model(source.inputs(images).to(like.dtype))
        rows.append(embeddings.float().cpu())
        done += len(indices)
        if progress:
            progress(done, len(own))
    model.train(was_training)
    found = torch.cat(rows)[:count]
    return gather_rows(found.to(like.device), len(subset)).cpu() if shared else found
