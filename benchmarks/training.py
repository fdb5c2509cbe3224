"""Training speed: images/s of ``lookalike train`` against the bare network and the usual loop.

The bare step is forward, loss, backward and optimiser on one random batch that lies in memory. The
usual loop is torchvision's ImageFolder and transforms, torch's DataLoader with 0 and with 2
workers, pytorch-metric-learning's ProxyAnchorLoss and AdamW, in the default memory layout, with the
same network, augmentation and batch. All take turns in one process, step by step; the loop with
workers, which would work on while others have their turn, has turns of many steps. Medians are
compared. Peak memory is that of a process of its own for each loop.

    python benchmarks/training.py [--cub FOLDER] [--steps 25] [--write]

Without --cub, random photographs of CUB's size are made for the occasion; --write puts the table
into docs/benchmarks/training.md.
"""

import argparse
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytorch_metric_learning
import torch
from pytorch_metric_learning.losses import ProxyAnchorLoss
from torch import Tensor, nn
from torch.utils.data import DataLoader, Subset
from torchvision import transforms
from torchvision.datasets import ImageFolder

from lookalike import models
from lookalike.config import RunConfig, load
from setting import DOCS, machine, some_images, taking_turns, training_of

OURS, USUAL = "lookalike train", "usual loop, {} workers"


def our_steps(config: RunConfig, folder: Path) -> dict[str, Callable[[], int]]:
    """A step on one random batch, and one of the training loop."""
    training = training_of(config, folder)
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

    return {"bare step": bare, OURS: real}


def usual_step(config: RunConfig, folder: Path, workers: int) -> Callable[[], int]:
    """A step of the loop that anybody would write."""
    wanted, optim = config.model, config.optim
    model = models.build(
        wanted.network, weights=wanted.weights, dim=wanted.dim, pooling=wanted.pooling
    )
    model.freeze(bn_statistics=wanted.freeze_bn_statistics, bn_affine=wanted.freeze_bn_affine)
    model.train()
    scaling = model.normalisation
    pictures = ImageFolder(
        str(folder),
        transforms.Compose(
            [
                transforms.Resize(160),
                transforms.RandomResizedCrop(128, (0.16, 1)),
                transforms.RandomHorizontalFlip(),
                transforms.ToTensor(),
                transforms.Normalize(scaling.mean, scaling.std),
            ]
        ),
    )
    classes = len(pictures.classes) // 2
    half = Subset(pictures, [i for i, label in enumerate(pictures.targets) if label < classes])
    batch_size = int(config.sampler.arguments["batch_size"])
    loader = DataLoader(half, batch_size, shuffle=True, drop_last=True, num_workers=workers)
    loss = ProxyAnchorLoss(classes, wanted.dim)
    optimizer = torch.optim.AdamW(
        [
            {"params": model.backbone.parameters(), "lr": optim.lr},
            {"params": model.head.parameters(), "lr": optim.head_lr},
            {"params": loss.parameters(), "lr": optim.loss_lr},
        ],
        weight_decay=optim.weight_decay,
    )

    def batches() -> Iterator[tuple[Tensor, Tensor]]:
        while True:
            yield from loader

    stream = batches()

    def step() -> int:
        images, labels = next(stream)
        value = loss(model(images), labels)
        optimizer.zero_grad()
        value.backward()
        nn.utils.clip_grad_value_(model.parameters(), optim.clip_value)
        optimizer.step()
        return len(labels)

    return step


def halves(
    steps: dict[str, Callable[[], int]], config: RunConfig, pictures: Path, rounds: int
) -> dict[str, float]:
    """All without workers in turn, then the loop with workers; twice, and the mean of both."""
    found: list[dict[str, float]] = []
    for _ in range(2):
        speeds = taking_turns(steps, rounds // 2)
        with_workers = usual_step(config, pictures, 2)
        found.append(speeds | taking_turns({USUAL.format(2): with_workers}, rounds // 2))
        del with_workers  # and the workers end
    return {name: (found[0][name] + found[1][name]) / 2 for name in found[0]}


def peak(only: str, cub: Path | None) -> int:
    """Megabytes that a process with one loop takes at most."""
    command = [sys.executable, __file__, "--only", only, "--steps", "3"]
    command += ["--cub", str(cub)] if cub else []
    return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def own_peak() -> int:
    """Megabytes that this process took at most; getrusage would count its parent's too."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) // 1024


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    arguments.add_argument("--cub", type=Path, help="the folder that holds CUB_200_2011")
    arguments.add_argument("--steps", type=int, default=25)
    arguments.add_argument("--write", action="store_true")
    arguments.add_argument("--only", choices=["ours", "usual"], help="print the peak memory of one")
    given = arguments.parse_args()
    with some_images(given.cub) as (folder, settings):
        config = load("recipe:cub-small", ["optim.warmup_epochs=0", *settings])
        pictures = given.cub / "CUB_200_2011" / "images" if given.cub else config.data.root
        assert pictures is not None
        steps: dict[str, Callable[[], int]] = {}
        if given.only != "usual":
            steps |= our_steps(config, folder)
        if given.only != "ours":
            steps[USUAL.format(0)] = usual_step(config, pictures, 0)
        if given.only == "ours":
            del steps["bare step"]
        if given.only:
            taking_turns(steps, given.steps)
        else:
            medians = halves(steps, config, pictures, given.steps)
    if given.only:
        print(own_peak())
        return
    batch = int(config.sampler.arguments["batch_size"])
    options = f"{'--cub data ' if given.cub else ''}--steps {given.steps} --write"
    lines = [
        "# Training: speed",
        "",
        f"Written by `python benchmarks/training.py {options}`. {config.model.network} at 128 px,",
        f"{'CUB-200-2011' if given.cub else 'random photographs'}, batch {batch}, proxy-anchor,",
        f"AdamW; {machine()}, pytorch-metric-learning {pytorch_metric_learning.__version__}.",
        "All take turns in one process, step by step (the loop with workers: by many steps);",
        "means of two medians. The bare step is forward, loss,",
        "backward and optimiser on one random batch in memory, in the `channels_last` layout. The",
        "usual loop is torchvision's `ImageFolder` and transforms, torch's `DataLoader`, PML's",
        "`ProxyAnchorLoss` and AdamW in the default layout, with the same network and crops.",
        "",
        "| loop | images/s | `lookalike train` is so many times as fast |",
        "|---|---:|---:|",
    ]
    for name, speed in medians.items():
        lines.append(f"| {name} | {speed:.1f} | {medians[OURS] / speed:.2f} |")
    lines += ["", "| a process of its own | peak memory |", "|---|---:|"]
    for name in ("ours", "usual"):
        lines.append(f"| {name} | {peak(name, given.cub)} MB |")
    print("\n".join(lines))
    if given.write:
        (DOCS / "training.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
