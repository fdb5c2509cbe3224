"""Frozen features: steps of the head, and images into features, against plain code.

The plain loop draws classes and images with Python's ``random``, and trains ``nn.Linear`` with
pytorch-metric-learning's ProxyAnchorLoss and AdamW on the same features, in memory as float32. All
take turns in one process, a hundred steps at a time. Extraction is compared with the bare network
on a batch that lies in memory.

    python benchmarks/frozen.py [--cub FOLDER] [--rounds 15] [--write]

Without --cub, noise of the size of photographs is made for the occasion; --write puts the table
into docs/benchmarks/frozen.md.
"""

import argparse
import random
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytorch_metric_learning
import torch
from pytorch_metric_learning.losses import ProxyAnchorLoss
from torch import Tensor, nn

from lookalike import data
from lookalike.config import load
from lookalike.data.image_random import ImageRandom
from lookalike.training.batches import PixelSource
from lookalike.training.building import build_model, pooled_features
from lookalike.training.features import AT_A_TIME
from lookalike.training.loop import TrainingLoop
from lookalike.training.monitor import StepMonitor
from setting import DOCS, machine, some_images, taking_turns, training_of

STEPS, BATCH, PER_CLASS, WIDTH, DIM = 100, 128, 4, 1280, 128
LOOPS = {
    "plain": "plain: Python's `random`, `nn.Linear`, PML's ProxyAnchorLoss",
    "ours": "`lookalike train model.frozen=true`",
    "compiled": "the same with `train.compile=true`",
}
SETTINGS = [
    "model.network=efficientnet-lite0",
    "model.weights=imagenet",
    "model.frozen=true",
    "model.frozen_views=1",
    f"model.dim={DIM}",
    "data.transform=small",
    "loss.name=proxy-anchor",
    f"sampler.batch_size={BATCH}",
    f"sampler.per_class={PER_CLASS}",
    "protocol.name=paper",
]


def our_loop(training: TrainingLoop) -> Callable[[], int]:
    """A hundred steps of ``lookalike train``."""
    monitor = StepMonitor(
        training.progress,
        training.split.train,
        training.watcher,
        training.total,
        training.per_epoch,
    )
    stream = iter(training.batches)

    def steps() -> int:
        for _ in range(STEPS):
            positions, features = next(stream)
            monitor.record(positions, training.step(positions, features))
        return STEPS

    return steps


def plain_loop(features: Tensor, labels: list[int]) -> Callable[[], int]:
    """A hundred steps of the loop that anybody would write."""
    members = defaultdict(list)
    for number, label in enumerate(labels):
        members[label].append(number)
    targets = torch.tensor(labels)
    head = nn.Linear(WIDTH, DIM)
    loss = ProxyAnchorLoss(len(members), DIM)
    optimizer = torch.optim.AdamW([*head.parameters(), *loss.parameters()], lr=1e-3)

    def steps() -> int:
        for _ in range(STEPS):
            classes = random.sample(sorted(members), BATCH // PER_CLASS)
            batch = [image for one in classes for image in random.sample(members[one], PER_CLASS)]
            value = loss(head(features[batch]), targets[batch])
            optimizer.zero_grad()
            value.backward()
            optimizer.step()
        return STEPS

    return steps


def extraction(
    training: TrainingLoop, pixels: PixelSource, part: Callable[[Tensor], Tensor]
) -> dict[str, float]:
    """Images/s of the bare network, and of reading, preparing and computing."""
    every = training.split.train.indices
    slices = [every[i : i + AT_A_TIME] for i in range(0, len(every) - AT_A_TIME, AT_A_TIME)]
    noise = torch.rand_like(pixels.inputs(pixels.testing(slices[0])))
    numbers = iter(range(10**6))

    def next_slice() -> np.ndarray:
        return slices[next(numbers) % len(slices)]

    def run(batch: Tensor) -> int:
        part(batch)
        return len(batch)

    with torch.no_grad():
        return taking_turns(
            {
                "bare": lambda: run(noise),
                "test view": lambda: run(pixels.inputs(pixels.testing(next_slice()))),
                "augmented": lambda: run(
                    pixels.inputs(pixels.training(rows := next_slice(), ImageRandom(0, 0, rows)))
                ),
            },
            rounds=12,
        )


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    arguments.add_argument("--cub", type=Path, help="the folder that holds CUB_200_2011")
    arguments.add_argument("--rounds", type=int, default=15)
    arguments.add_argument("--write", action="store_true")
    given = arguments.parse_args()
    with some_images(given.cub) as (folder, settings):
        config = load(None, [*SETTINGS, *settings])
        training = training_of(config, folder)
        compiled = training_of(load(None, [*SETTINGS, *settings, "train.compile=true"]), folder)
        subset = training.split.train
        features = training.source.testing(subset.indices).float().flatten(1)
        speeds = taking_turns(
            {
                "plain": plain_loop(features, subset.labels.tolist()),
                "ours": our_loop(training),
                "compiled": our_loop(compiled),
            },
            given.rounds,
        )
        images, preset = subset.images, data.preset(config.data.transform)
        store = data.open_store(images, preset.resize)
        model = build_model(config, store, preset).eval()
        pixels = PixelSource(store, preset, model.normalisation, torch.channels_last)
        views = extraction(training, pixels, pooled_features(model))
    lines = [
        "# Frozen features: speed",
        "",
        f"Written by `python benchmarks/frozen.py {'--cub data ' if given.cub else ''}--write`. "
        f"{images.name}, {subset.class_count} classes, batch {BATCH} ({PER_CLASS} images a class),",
        f"{WIDTH}-d to {DIM}-d, proxy-anchor, AdamW; {machine()}, pytorch-metric-learning",
        f"{pytorch_metric_learning.__version__}. All take turns in one process; medians.",
        "",
        "| loop | steps/s | of the plain loop's |",
        "|---|---:|---:|",
    ]
    for name, what in LOOPS.items():
        lines.append(f"| {what} | {speeds[name]:.0f} | {speeds[name] / speeds['plain']:.2f} |")
    lines += [
        "",
        "| EfficientNet-Lite0 at 128 px, computing features | images/s | of the bare network |",
        "|---|---:|---:|",
    ]
    for name, speed in views.items():
        lines.append(f"| {name} | {speed:.1f} | {speed / views['bare']:.2f} |")
    print("\n".join(lines))
    if given.write:
        (DOCS / "frozen.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
