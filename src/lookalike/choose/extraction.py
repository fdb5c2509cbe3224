"""Features of the images, as many as fit in the budget: measured, drawn, computed."""

import csv
import io
import time
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from lookalike import models
from lookalike.choose.budget import Pace
from lookalike.config import RunConfig
from lookalike.data import ImageSet, Preset, UnreadableImage
from lookalike.data.cache import resized
from lookalike.errors import BadInput
from lookalike.files import atomically
from lookalike.progress import Watcher
from lookalike.training.building import PreparedParts, pooled_features
from lookalike.training.distributed.launch import prepared_fabric
from lookalike.training.features import Features

MEASURED = 48
"""Images that are decoded and embedded to measure the pace."""


def measure(config: RunConfig, images: ImageSet, preset: Preset) -> Pace:
    """Decode and embed some images, and time it.

    Args:
        config: The network.
        images: The data set.
        preset: The transform.

    Returns:
        Seconds for one image.

    Raises:
        BadInput: None of the images that were drawn can be read.
    """
    drawn = np.random.default_rng(0).permutation(len(images))[:MEASURED]
    begun = time.monotonic()
    pixels = []
    for index in drawn:
        try:
            found = resized(images.decode(int(index)), preset.resize)
        except UnreadableImage:
            continue
        pixels.append(torch.from_numpy(found.copy()).permute(2, 0, 1))
    decode = (time.monotonic() - begun) / len(drawn)
    if not pixels:
        raise BadInput(f"none of {len(drawn)} images of '{images.name}' can be read")
    wanted = config.model
    model = models.build(
        wanted.network,
        weights=wanted.weights,
        dim=0,
        pooling=wanted.pooling,
        image_size=preset.size,
    )
    device = feature_device(config)
    embed = pooled_features(model.to(device))
    with torch.no_grad():
        embed(model.normalisation(preset.centre(pixels[:2])).to(device)).cpu()  # warm-up
        begun = time.monotonic()
        embed(model.normalisation(preset.centre(pixels)).to(device)).cpu()
    return Pace(decode, (time.monotonic() - begun) / len(pixels))


def feature_device(config: RunConfig) -> torch.device:
    """The best device of this machine; heads are trained on that of the configuration."""
    automatic = config.train.model_copy(update={"device": "auto"})
    return prepared_fabric(automatic).device


def compute_features(config: RunConfig, images: ImageSet, watcher: Watcher) -> Features:
    """The features of all images, in the cache from then on.

    Args:
        config: The network, and the number of views.
        images: The data set.
        watcher: Receives progress.

    Returns:
        The features.
    """
    return PreparedParts(watcher, images).features(config, feature_device(config))


def draw(labels: NDArray[np.int64], per_class: int) -> NDArray[np.int64]:
    """The positions of ``per_class`` images of each class, at most, in order.

    Args:
        labels: The class of each image.
        per_class: How many.

    Returns:
        Positions, always the same for the same labels.
    """
    random = np.random.default_rng(0)
    parts = []
    for label in np.unique(labels):
        (found,) = np.nonzero(labels == label)
        parts.append(random.permutation(found)[:per_class])
    return np.sort(np.concatenate(parts))


def write_sample(path: Path, root: Path, images: ImageSet, per_class: int) -> None:
    """Write a CSV of some images of each class, as the data set ``csv`` reads it.

    Args:
        path: The file.
        root: The folder that the names of the files are relative to.
        images: The whole data set.
        per_class: Images of each class, at most.
    """
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(("path", "label", "split"))
    for index in draw(images.labels, per_class):
        label = images.class_names[images.labels[index]]
        half = "test" if images.test[index] else "train"
        writer.writerow(((root / images.files[index]).resolve(), label, half))
    with atomically(path) as draft:
        draft.write_text(text.getvalue(), encoding="utf-8")
