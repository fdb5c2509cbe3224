"""Features of a network that does not learn: computed once, then read from memory.

The pooled features of every image, by the test transform and by several augmented views, lie in one
memory-mapped file of half-precision numbers, named by what they depend on.
"""

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lookalike.data import ImageSet
from lookalike.data.cache_folder import cache_folder
from lookalike.files import atomically
from lookalike.models import EmbeddingModel
from lookalike.training.batches import ahead, step_generator
from lookalike.training.sources import Pixels

__all__ = ["Features", "open_features"]

LARGEST = float(np.finfo(np.float16).max)
AT_A_TIME = 128
"""Images in a batch; fixed, since the augmented views are drawn batch by batch."""


@dataclass(frozen=True)
class Features:
    """Pooled features [views, images, width]; view 0 is the test transform."""

    views: Tensor

    def training(self, indices: NDArray[np.int64], generator: torch.Generator) -> Tensor:
        """Each image in one of its augmented views."""
        chosen = torch.as_tensor(indices)
        count = len(self.views)
        view = torch.randint(min(1, count - 1), count, (len(chosen),), generator=generator)
        return self.views[view, chosen].float()[:, :, None, None]

    def testing(self, indices: NDArray[np.int64]) -> Tensor:
        """Each image as the test transform shows it."""
        return self.views[0, torch.as_tensor(indices)].float()[:, :, None, None]


def open_features(
    model: EmbeddingModel,
    pixels: Pixels,
    images: ImageSet,
    *,
    identity: dict[str, str],
    views: int,
    progress: Callable[[int, int], None] | None = None,
) -> Features:
    """The features of all images; computed if no file of that ``identity`` is there yet.

    ``identity`` says which network, weights and pooling these are.
    """
    named = identity | {
        "images": images.stamp,
        "preset": pixels.preset.name,
        "views": str(views),
        "torch": version("torch"),
    }
    digest = hashlib.sha256(json.dumps(named, sort_keys=True).encode()).hexdigest()[:24]
    path = cache_folder() / f"{images.name}-{digest}.features.npy"
    if not whole(path, (views + 1, len(images), model.backbone.width)):
        with atomically(path) as draft:
            compute(draft, model, pixels, len(images), views, progress)
    return Features(torch.from_numpy(np.load(path, mmap_mode="c")))


def whole(path: Path, shape: tuple[int, ...]) -> bool:
    """Whether there is a file of that shape, undamaged."""
    try:
        return bool(np.load(path, mmap_mode="r").shape == shape)
    except (OSError, ValueError, EOFError):
        return False


@torch.no_grad()
def compute(
    path: Path,
    model: EmbeddingModel,
    pixels: Pixels,
    count: int,
    views: int,
    progress: Callable[[int, int], None] | None,
) -> None:
    """Write the features of ``count`` images: the test view, then the augmented ones."""
    was_training = model.training
    model.eval()
    weight = next(model.parameters())
    slices = [np.arange(i, min(i + AT_A_TIME, count)) for i in range(0, count, AT_A_TIME)]
    jobs = [(view, number) for view in range(views + 1) for number in range(len(slices))]

    def read(job: tuple[int, int]) -> Tensor:
        view, number = job
        if view == 0:
            return pixels.testing(slices[number])
        return pixels.training(slices[number], step_generator(view, number))

    shape = (views + 1, count, model.backbone.width)
    written = np.lib.format.open_memmap(path, "w+", np.float16, shape)
    for done, ((view, number), batch) in enumerate(ahead(jobs, read, weight.device)):
        pooled = model.head.pool(model.features(batch.to(weight)))
        written[view, slices[number]] = pooled.float().clamp(-LARGEST, LARGEST).cpu().numpy()
        if progress:
            progress(done + 1, len(jobs))
    written.flush()
    model.train(was_training)
