"""From image indices to batches on the device of the network, and from subsets to embeddings.

Threads read and augment images ahead of the network. A batch is cut into parts that several threads
make at a time, since the kernels that decode, crop and resize release the GIL. It travels compactly
(images as uint8) in pinned memory. The values do not depend on the number of threads.
"""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from typing import Any, Protocol, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from lookalike.data import ImageStore, Normalisation, Preset, Subset
from lookalike.data.image_random import ImageRandom
from lookalike.data.parallel import available_cores
from lookalike.samplers import BatchSampler
from lookalike.training.distributed.gather import broadcast_from_first, gather_rows
from lookalike.training.distributed.ranks import launched, own_part, sizes_of, world_size

Item = TypeVar("Item")

SMALLEST_PART = 8
"""Images of a batch that one thread makes, at least."""
MOST_WORKERS = 16


@dataclass(frozen=True)
class Feeding:
    """How batches are made: ``train.workers`` threads, ``train.prefetch`` batches ahead."""

    workers: int | None = None
    ahead: int = 2

    def threads(self, device: torch.device) -> int:
        """The number of threads; 0: the thread that trains makes its batches itself.

        By default all cores that this process has, but none where the network runs on the CPU,
        since they would only take the cores from it.
        """
        if self.workers is not None:
            return self.workers
        if device.type == "cpu":
            return 0
        processes = int(os.environ["LOCAL_WORLD_SIZE"]) if launched() else 1
        return min(MOST_WORKERS, max(1, available_cores() // processes))


@dataclass(frozen=True)
class UnreadBatch:
    """A batch of ``size`` rows before it is read; ``read(start, stop)`` makes some of the rows."""

    size: int
    read: Callable[[int, int], Tensor]

    def parts(self, number: int) -> list[Callable[[], Tensor]]:
        """The batch in at most ``number`` parts of about the same size."""
        number = max(1, min(number, self.size // SMALLEST_PART))
        cuts = [self.size * i // number for i in range(number + 1)]
        return [partial(self.read, *ends) for ends in pairwise(cuts)]


def feed(
    items: Iterable[Item],
    unread: Callable[[Item], UnreadBatch],
    device: torch.device,
    feeding: Feeding | None = None,
) -> Iterator[tuple[Item, Tensor]]:
    """Each item with its batch, in memory from which it is copied to ``device`` quickly.

    Args:
        items: What the batches are made of; they are drawn exactly ``feeding.ahead`` ahead.
        unread: The batch of an item; several threads may read at a time.
        device: Where the network is.
        feeding: The number of threads, and how far they are ahead.

    Yields:
        The items in order with their batches.
    """
    feeding = feeding or Feeding()
    threads = feeding.threads(device)
    with ExitStack() as stack:
        start = _read_later
        if threads:
            pool = ThreadPoolExecutor(threads, "feed", _use_one_core)
            stack.callback(pool.shutdown, cancel_futures=True)  # what is not begun is not wanted
            start = partial(_read_ahead, pool, threads, device.type == "cuda")
        waiting: deque[tuple[Item, Callable[[], Tensor]]] = deque()
        for item in items:
            waiting.append((item, start(unread(item))))
            if len(waiting) > feeding.ahead:
                first, finish = waiting.popleft()
                yield first, finish()
        while waiting:
            first, finish = waiting.popleft()
            yield first, finish()


def _read_later(batch: UnreadBatch) -> Callable[[], Tensor]:
    return partial(batch.read, 0, batch.size)


def _read_ahead(
    pool: ThreadPoolExecutor, threads: int, pinned: bool, batch: UnreadBatch
) -> Callable[[], Tensor]:
    """Begin to make the parts of a batch; another task of the pool, behind them, joins them."""
    parts = [pool.submit(part) for part in batch.parts(threads)]
    return pool.submit(_joined, parts, pinned).result


def _joined(parts: list[Future[Tensor]], pinned: bool) -> Tensor:
    made = [part.result() for part in parts]
    whole = made[0] if len(made) == 1 else torch.cat(made)
    return whole.pin_memory() if pinned else whole


def _use_one_core() -> None:
    """Let the operations of this thread use one core: the other threads have the others."""
    torch.set_num_threads(1)


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
    """

    subset: Subset
    source: InputSource
    sampler: BatchSampler
    seed: int
    device: torch.device
    step: int = 0
    feeding: Feeding = field(default_factory=Feeding)
    drawn: list[list[int]] = field(default_factory=list, init=False)

    def __iter__(self) -> Iterator[tuple[list[int], Tensor]]:
        feeding = self.feeding
        if self.sampler.uses_embeddings:
            feeding = replace(feeding, ahead=1)
        numbered = enumerate(self._positions(), self.step)
        for (_, positions), images in feed(numbered, self._unread, self.device, feeding):
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

    def _positions(self) -> Iterator[list[int]]:
        """Those that were drawn before, then new ones."""
        yield from list(self.drawn)
        while True:
            for positions in self.sampler:
                self.drawn.append(positions)
                yield positions

    def _unread(self, numbered: tuple[int, list[int]]) -> UnreadBatch:
        step, positions = numbered
        rows = own_part(len(positions))
        own = self.subset.indices[positions[rows]]
        return UnreadBatch(
            len(own), partial(read_training, self.source, own, self.seed, step, rows.start)
        )


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


def unread_test(source: InputSource, indices: NDArray[np.int64]) -> UnreadBatch:
    """A batch to embed."""
    return UnreadBatch(len(indices), lambda start, stop: source.testing(indices[start:stop]))


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
    for indices, images in feed(slices, unread, like.device, feeding):
        images = images.to(like.device, non_blocking=True)
        with autocast():
            embeddings = model(source.inputs(images).to(like.dtype))
        rows.append(embeddings.float().cpu())
        done += len(indices)
        if progress:
            progress(done, len(own))
    model.train(was_training)
    found = torch.cat(rows)[:count]
    return gather_rows(found.to(like.device), len(subset)).cpu() if shared else found
