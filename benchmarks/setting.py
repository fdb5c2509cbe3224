"""What the training benchmarks share: images, a run that stands ready, and taking turns."""

import platform
import random
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
from PIL import Image

from lookalike.config import RunConfig
from lookalike.runs.run import Run
from lookalike.training.loop import TrainingLoop
from lookalike.training.profiling import prepare_training

DOCS = Path(__file__).resolve().parent.parent / "docs" / "benchmarks"


@contextmanager
def some_images(cub: Path | None) -> Iterator[tuple[Path, list[str]]]:
    """A folder for the occasion, and the settings of CUB, or of photographs made there."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        if cub is not None:
            yield folder, ["data.name=cub", f"data.root={cub}"]
            return
        photographs(folder / "photographs")
        yield folder, ["data.name=folder", f"data.root={folder / 'photographs'}"]


def photographs(folder: Path, classes: int = 200, per_class: int = 6) -> None:
    """Noise with the sizes of photographs, one folder a class."""
    drawn = np.random.default_rng(0)
    for number in range(classes):
        home = folder / f"class-{number:03d}"
        home.mkdir(parents=True)
        for image in range(per_class):
            height, width = drawn.permutation([160, int(drawn.integers(160, 240))])
            coarse = drawn.integers(0, 256, (height // 8, width // 8, 3), dtype=np.uint8)
            Image.fromarray(coarse).resize((int(width), int(height))).save(home / f"{image}.jpg")


def training_of(config: RunConfig, folder: Path) -> TrainingLoop:
    """What ``lookalike train`` would start, stopped before its first step."""
    training = prepare_training(config, Run(folder / "run"))
    training.begin_epoch(0)
    return training


def taking_turns(steps: dict[str, Callable[[], int]], rounds: int) -> dict[str, float]:
    """The median of what each gets done in a second, all in turn, after one round to warm up.

    The order is drawn anew each round, so that nobody always comes after the one that leaves work
    to the background.
    """
    speeds: dict[str, list[float]] = {name: [] for name in steps}
    order = random.Random(0)
    for number in range(rounds + 1):
        for name in order.sample(list(steps), len(steps)):
            start = time.perf_counter()
            done = steps[name]()
            if number:
                speeds[name].append(done / (time.perf_counter() - start))
    return {name: statistics.median(values) for name, values in speeds.items()}


def machine() -> str:
    """What the numbers were measured on."""
    return (
        f"{torch.get_num_threads()} threads of a {platform.machine()} CPU, "
        f"torch {torch.__version__.partition('+')[0]}"
    )
