"""From image indices to batches on the device of the network, and from subsets to embeddings.

Threads read and augment images ahead of the network. A batch is cut into parts that several threads
make at a time, since the kernels that decode, crop and resize release the GIL. It travels compactly
(images as uint8) in pinned memory, on a stream of its own. The values do not depend on the number
of threads.
"""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count, pairwise
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
    unread: Callable[[Item], list[UnreadBatch]],
    device: torch.device,
    feeding: Feeding | None = None,
) -> Iterator[tuple[Item, list[Tensor]]]:
    """Each item with its batches, on ``device``.

    Args:
        items: What the batches are made of; they are drawn exactly ``feeding.ahead`` ahead.
        unread: The batches of an item; several threads may read at a time.
        device: Where the network is.
        feeding: The number of threads, and how far they are ahead.

    Yields:
        The items in order with their batches.
    """
    feeding = feeding or Feeding()
    threads = feeding.threads(device)
    with ExitStack() as stack:
        start = partial(_read_later, device)
        if threads:
            start = partial(_read_ahead, _Pool(stack, threads, device))
        waiting: deque[tuple[Item, list[Callable[[], Tensor]]]] = deque()

        def first() -> tuple[Item, list[Tensor]]:
            item, started = waiting.popleft()
            return item, [finish() for finish in started]

        for item in items:
            waiting.append((item, [start(batch) for batch in unread(item)]))
            if len(waiting) > feeding.ahead:
                yield first()
        while waiting:
            yield first()


def _read_later(device: torch.device, batch: UnreadBatch) -> Callable[[], Tensor]:
    return lambda: batch.read(0, batch.size).to(device)


def _read_ahead(pool: "_Pool", batch: UnreadBatch) -> Callable[[], Tensor]:
    return pool.start(batch).result


class _Pool:
    """Threads that make the parts of batches, and one that joins and copies them in order."""

    def __init__(self, stack: ExitStack, threads: int, device: torch.device) -> None:
        self.device = device
        self.threads = threads
        self.makers = ThreadPoolExecutor(threads, "feed", _use_one_core)
        self.joiner = ThreadPoolExecutor(1, "feed-join", _use_one_core)
        for executor in (self.makers, self.joiner):  # what was not begun is not wanted any more
            stack.callback(executor.shutdown, cancel_futures=True)
        self.copies: torch.cuda.Stream | None = None
        if device.type == "cuda":
            self.copies = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]

    def start(self, batch: UnreadBatch) -> "_Started":
        parts = [self.makers.submit(part) for part in batch.parts(self.threads)]
        return _Started(self.joiner.submit(self.join, parts), self.device)

    def join(self, parts: list[Future[Tensor]]) -> tuple[Tensor, torch.cuda.Event | None]:
        made = [part.result() for part in parts]
        if self.copies is None:
            whole = made[0] if len(made) == 1 else torch.cat(made)
            return whole.to(self.device), None
        pinned = torch.cat(made, out=_pinned_like(made))
        with torch.cuda.stream(self.copies):
            batch = pinned.to(self.device, non_blocking=True)
            return batch, self.copies.record_event()


@dataclass(frozen=True)
class _Started:
    """A batch that is being made."""

    future: Future[tuple[Tensor, torch.cuda.Event | None]]
    device: torch.device

    def result(self) -> Tensor:
        batch, copied = self.future.result()
        if copied is not None:
            stream = torch.cuda.current_stream(self.device)
            stream.wait_event(copied)
            batch.record_stream(stream)
        return batch


def _pinned_like(parts: list[Tensor]) -> Tensor:
    """Pinned memory for the parts joined, in their own memory format."""
    first = parts[0]
    shape = (sum(len(part) for part in parts), *first.shape[1:])
    last = first.dim() == 4 and first.is_contiguous(memory_format=torch.channels_last)
    memory_format = torch.channels_last if last else torch.contiguous_format
    return torch.empty(shape, dtype=first.dtype, memory_format=memory_format, pin_memory=True)


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
