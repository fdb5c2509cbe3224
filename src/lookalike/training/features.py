"""Features of a frozen network, or of its frozen front: computed once per image, then read.

The features of every image (pooled, or maps), by the test transform and in several augmented views,
are stored in one memory-mapped file of half-precision numbers, named by what they depend on.
"""

import hashlib
import json
import math
import os
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lookalike.config import ModelConfig
from lookalike.data import ImageSet, Preset
from lookalike.data.cache import cache_folder, remove_abandoned
from lookalike.data.image_random import ImageRandom
from lookalike.data.store import format_bytes
from lookalike.errors import BadInput, LookalikeError
from lookalike.files import damaged, file_checksum, locked, read_json, write_json
from lookalike.models import fingerprint
from lookalike.progress import Watcher
from lookalike.training.batches import (
    Feeding,
    PixelSource,
    UnreadBatch,
    feed,
    read_training,
    unread_test,
)

LARGEST = float(np.finfo(np.float16).max)
AT_A_TIME = 128
"""Images in a batch."""
BATCHES_BETWEEN_FLUSHES = 32
"""After so many, what is computed survives a killed process too."""


@dataclass(frozen=True)
class Features:
    """Features [views, images, ...]; view 0 is the test transform."""

    views: Tensor
    parameters: int = 0
    """The number of parameters of the network that computed them."""

    @cached_property
    def rows(self) -> Tensor:
        """All views of all images, one after the other."""
        return self.views.flatten(0, 1)

    def training(self, indices: NDArray[np.int64], random: ImageRandom) -> Tensor:
        """Each image in one of its augmented views."""
        chosen = torch.as_tensor(indices)
        count, images = self.views.shape[:2]
        if count <= 2:  # nothing to choose
            return self.views[-1].index_select(0, chosen)
        view = random.integers(count - 1) + 1
        return self.rows.index_select(0, view.mul_(images).add_(chosen))

    def testing(self, indices: NDArray[np.int64]) -> Tensor:
        """Each image as the test transform shows it."""
        return self.views[0].index_select(0, torch.as_tensor(indices))

    def inputs(self, batch: Tensor) -> Tensor:
        """The features as float32."""
        return batch.float()


@dataclass(frozen=True)
class Frozen:
    """The frozen part of a network, and the source of its inputs."""

    part: Callable[[Tensor], Tensor]
    """Images [B, C, H, W] to maps [B, ...], in evaluation mode."""
    pixels: PixelSource
    parameters: int
    device: torch.device
    feeding: Feeding


def open_features(
    images: ImageSet,
    preset: Preset,
    model: ModelConfig,
    part: Mapping[str, Any],
    frozen: Callable[[], Frozen],
    watcher: Watcher,
) -> Features:
    """The features of all images by a part of a network; computed if there is no file yet.

    ``part`` has what they depend on besides the images and the weights
    (:func:`lookalike.config.keys.feature_values`, and the settings of the store). ``frozen`` builds
    the network and is called only if something has to be computed.
    """
    views = model.frozen_views
    named = {
        **part,
        "weights": fingerprint(model.network, model.weights),
        "preset": preset.name,
        "images": images.stamp,
        "torch": version("torch"),
    }
    digest = hashlib.sha256(json.dumps(named, sort_keys=True).encode()).hexdigest()[:24]
    path = cache_folder() / f"{images.name}-{digest}.features.npy"
    about = path.with_suffix(".json")  # written last
    if not about.is_file():
        with locked(path.with_name(f"{path.name}.lock")):
            if not about.is_file():  # made by another process, meanwhile
                remove_abandoned(path)
                network = frozen()
                compute(path, network, len(images), views, watcher)
                known = {"parameters": network.parameters, "of": named}
                write_json(about, known | {"crc32": file_checksum(path)})
    known = read_json(about)
    if known["crc32"] != file_checksum(path):
        raise damaged(path)
    return Features(torch.from_numpy(np.load(path, mmap_mode="c")), known["parameters"])


@torch.no_grad()
def compute(path: Path, frozen: Frozen, count: int, views: int, watcher: Watcher) -> None:
    """Write the features of ``count`` images: the test view, then the augmented ones.

    They are collected in ``NAME.partial``. Where a former call was interrupted, this one resumes.
    """
    pixels = frozen.pixels
    partial_path = path.with_name(f"{path.name}.partial")
    counter = path.with_name(f"{path.name}.partial.json")
    slices = [np.arange(i, min(i + AT_A_TIME, count)) for i in range(0, count, AT_A_TIME)]
    jobs = [(view, number) for view in range(views + 1) for number in range(len(slices))]

    def unread(job: tuple[int, int]) -> UnreadBatch:
        view, number = job
        chosen = slices[number]
        if view == 0:
            return unread_test(pixels, chosen)
        read = partial(read_training, pixels, chosen, view, 0, int(chosen[0]))
        return UnreadBatch(len(chosen), read)

    written: NDArray[np.float16] | None = None
    done = 0
    with suppress(LookalikeError, OSError, ValueError, KeyError):  # there are none, or damaged ones
        begun = np.load(partial_path, mmap_mode="r+")
        done, written = int(read_json(counter)["done"]), begun
    try:
        fed = feed(jobs[done:], unread, frozen.device, frozen.feeding)
        for (view, number), batch in fed:
            batch = batch.to(frozen.device, non_blocking=True)
            maps = frozen.part(pixels.inputs(batch)).float().clamp_(-LARGEST, LARGEST).cpu().numpy()
            if written is None:
                written = reserved(partial_path, (views + 1, count, *maps.shape[1:]), watcher)
            written[view, slices[number]] = maps
            done += 1
            if done % BATCHES_BETWEEN_FLUSHES == 0:
                keep(written, counter, done)
            watcher.stage("computing features", done, len(jobs))
    finally:
        if written is not None:
            keep(written, counter, done)
    partial_path.replace(path)
    counter.unlink(missing_ok=True)


def reserved(path: Path, shape: tuple[int, ...], watcher: Watcher) -> NDArray[np.float16]:
    """A mapped file for features, which has its space on the disk."""
    watcher.note(disk_space(shape, path.parent))
    written = np.lib.format.open_memmap(path, "w+", np.float16, shape)
    with path.open("rb+") as file:  # a full disk would kill the process later
        os.posix_fallocate(file.fileno(), 0, path.stat().st_size)
    return written


def keep(written: NDArray[np.float16], counter: Path, done: int) -> None:
    """Let what is computed survive a killed process, and a crash of the machine."""
    cast(np.memmap[Any, np.dtype[np.float16]], written).flush()
    write_json(counter, {"done": done})


def disk_space(shape: tuple[int, ...], folder: Path) -> str:
    """The disk space of features as text; refused if there is not enough left.

    Writing to a mapped file on a full disk would kill the process without an error message.
    """
    views, images, *one = shape
    needed, free = 2 * math.prod(shape), shutil.disk_usage(folder).free
    kept = (
        f"{views} {'view' if views == 1 else 'views'} of {images} images, "
        f"{' x '.join(map(str, one))} each, take {format_bytes(needed)} in {folder}"
    )
    if needed > free:
        raise BadInput(
            f"{kept}, where {format_bytes(free)} are free; take fewer model.frozen_views, a later "
            "model.frozen_until, or set LOOKALIKE_CACHE to a folder on a larger disk"
        )
    return kept
