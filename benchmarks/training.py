"""Training speed: images/s of the real loop against the bare network, in one process.

The bare step is forward, loss, backward and optimiser on one random batch that lies in memory; the
real step also reads the image cache, augments and samples. The two take turns, step by step, and
medians are compared, since other work on the machine disturbs both.

    python benchmarks/training.py [--cub FOLDER] [--steps 25]

Without --cub, random photographs of CUB's size are made for the occasion.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from lookalike import data
from lookalike.config import RunConfig, load
from lookalike.training.devices import prepared_fabric
from lookalike.training.loop import Training, chosen_split
from lookalike.training.run import Run
from lookalike.training.watcher import Watcher


def photographs(folder: Path, classes: int = 20, per_class: int = 20) -> None:
    """Noise with the sizes of photographs, one folder a class."""
    random = np.random.default_rng(0)
    for number in range(classes):
        home = folder / f"class-{number:02d}"
        home.mkdir(parents=True)
        for image in range(per_class):
            height, width = random.permutation([160, int(random.integers(160, 240))])
            coarse = random.integers(0, 256, (height // 8, width // 8, 3), dtype=np.uint8)
            Image.fromarray(coarse).resize((int(width), int(height))).save(home / f"{image}.jpg")


def training_of(config: RunConfig, folder: Path) -> Training:
    """What ``lookalike train`` would start, stopped before its first step."""
    images = data.load(config.data.name, config.data.root)
    preset = data.preset(config.data.transform)
    store = data.open_store(images, preset.short_side)
    split = chosen_split(config, images)
    fabric = prepared_fabric(config.train)
    return Training(config, fabric, Run(folder / "run"), split, store, preset, Watcher())


def images_per_second(step: Callable[[], int]) -> float:
    """How many images ``step`` gets through in a second."""
    start = time.perf_counter()
    images = step()
    return images / (time.perf_counter() - start)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    arguments.add_argument("--cub", type=Path, help="the folder that holds CUB_200_2011")
    arguments.add_argument("--steps", type=int, default=25)
    given = arguments.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        settings = ["optim.warmup_epochs=0"]
        if given.cub:
            settings += [f"data.root={given.cub}"]
        else:
            photographs(folder / "photographs")
            settings += ["data.name=folder", f"data.root={folder / 'photographs'}"]
        config = load("recipe:cub-small", settings)
        training = training_of(config, folder)
        training.begin_epoch(0)
        stream = iter(training.batches)
        positions, images = next(stream)
        random = torch.rand_like(images)

        def bare() -> int:
            training.step(positions, random)
            return len(positions)

        def real() -> int:
            drawn, pictures = next(stream)
            training.step(drawn, pictures)
            return len(drawn)

        for step in (bare, real, bare, real):
            step()
        speeds: dict[str, list[float]] = {"bare": [], "real": []}
        for _ in range(given.steps):
            speeds["bare"].append(images_per_second(bare))
            speeds["real"].append(images_per_second(real))
        medians = {name: statistics.median(values) for name, values in speeds.items()}
        print(f"bare step on random tensors: {medians['bare']:6.1f} images/s")
        print(f"the training loop:           {medians['real']:6.1f} images/s")
        print(f"ratio:                       {medians['real'] / medians['bare']:6.2f}")


if __name__ == "__main__":
    main()
