"""Feeding speed: images/s per core of our stores against torchvision's and timm's loaders.

Every loader makes normalised float32 batches at 224 px with as many workers as there are cores:
random resized crops and flips, and the same with changed colours (brightness, contrast, saturation
and hue by 0.2, one image in five grey). Ours reads a raw and a JPEG store at 256 px, by threads.
torchvision (ImageFolder, transforms, torch's DataLoader) and timm (create_loader) read the original
files and, as "files at 256 px", JPEGs that were resized beforehand, by processes. All take turns in
one run; medians are compared, of images per CPU second: other work on the machine does not change
them much.

    python benchmarks/feeding.py [--images FOLDER] [--most 2000] [--rounds 5] [--write]

FOLDER has one folder per class, such as CUB_200_2011/images. Without it, photographs are made for
the occasion. --write puts the table into docs/benchmarks/feeding.md.
"""

import argparse
import random
import statistics
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import psutil
import timm
import torch
import torchvision
from PIL import Image
from timm.data import create_dataset, create_loader
from torch import Tensor
from torch.utils.data import DataLoader
from torchvision import transforms
from torchvision.datasets import ImageFolder

from lookalike import data
from lookalike.data import ImageStore, Normalisation, Preset
from lookalike.data.parallel import available_cores
from lookalike.samplers import create
from lookalike.training.batches import Feeding, PixelSource, TrainingBatches
from setting import DOCS, machine

BATCH, SIZE, STORED = 64, 224, 256
Stream = Callable[[], Iterator[Tensor]]
PRESETS = {"crops": "proxy-anchor", "crops and colour": "colour"}


class AllImages:
    """The images of a store, as the batches need them."""

    def __init__(self, count: int) -> None:
        self.indices = np.arange(count)


def ours(store: ImageStore, preset: Preset, cores: int) -> Iterator[Tensor]:
    """Our batches, as ``lookalike train`` makes them with ``train.workers``."""
    sampler = create("random", np.zeros(len(store), np.int64), batch_size=BATCH, seed=0)
    source = PixelSource(store, preset, Normalisation(), torch.channels_last)
    batches = TrainingBatches(
        AllImages(len(store)),  # type: ignore[arg-type]
        source,
        sampler,
        0,
        torch.device("cpu"),
        feeding=Feeding(cores, 2),
    )
    return (source.inputs(images) for _, images in batches)


def of_torchvision(folder: Path, colour: bool, cores: int) -> Iterator[Tensor]:
    """The batches of the usual loader."""
    changes = [transforms.ColorJitter(0.2, 0.2, 0.2, 0.2), transforms.RandomGrayscale(0.2)]
    views = [
        transforms.RandomResizedCrop(SIZE, (0.08, 1)),
        transforms.RandomHorizontalFlip(),
        *(changes if colour else []),
        transforms.ToTensor(),
        transforms.Normalize(Normalisation().mean, Normalisation().std),
    ]
    pictures = ImageFolder(str(folder), transforms.Compose(views))
    loader = DataLoader(pictures, BATCH, shuffle=True, num_workers=cores, drop_last=True)
    return (images for images, _ in loader)


def of_timm(folder: Path, colour: bool, cores: int) -> Iterator[Tensor]:
    """The batches of timm's loader, without the part that needs a GPU."""
    loader = create_loader(
        create_dataset("", str(folder)),
        (3, SIZE, SIZE),
        BATCH,
        is_training=True,
        use_prefetcher=False,
        scale=(0.08, 1),
        hflip=0.5,
        color_jitter=(0.2, 0.2, 0.2, 0.2) if colour else None,
        grayscale_prob=0.2 if colour else 0,
        interpolation="bilinear",
        num_workers=cores,
        device=torch.device("cpu"),
        persistent_workers=False,
    )
    return (images for images, _ in loader)


def cpu_seconds() -> float:
    """The CPU time of this process and of its workers so far."""
    own = psutil.Process()
    times = [process.cpu_times() for process in (own, *own.children(recursive=True))]
    return sum(one.user + one.system for one in times)


def speeds(streams: dict[str, Stream], rounds: int, batches: int) -> dict[str, tuple[float, float]]:
    """Each one's images per second and per CPU second: medians, all in turn, begun anew each time.

    The clocks start after the first batch, so that starting processes is not counted.
    """
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in streams}
    order = random.Random(0)
    for _ in range(rounds):
        for name in order.sample(list(streams), len(streams)):
            stream = streams[name]()
            next(stream)
            began, worked = time.perf_counter(), cpu_seconds()
            for images in islice(stream, batches):
                assert images.shape == (BATCH, 3, SIZE, SIZE)
                assert images.dtype == torch.float32
            made = batches * BATCH
            seconds, used = time.perf_counter() - began, cpu_seconds() - worked
            found[name].append((made / seconds, made / used))
            del stream
    return {
        name: (statistics.median(a for a, _ in values), statistics.median(b for _, b in values))
        for name, values in found.items()
    }


def photographs(folder: Path, most: int) -> None:
    """Coarse noise in the sizes of photographs, one folder a class."""
    drawn = np.random.default_rng(0)
    for number in range(most):
        height, width = drawn.permutation([500, int(drawn.integers(330, 400))])
        coarse = drawn.integers(0, 256, (height // 8, width // 8, 3), dtype=np.uint8)
        path = folder / f"class-{number % 20:02d}" / f"{number}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(coarse).resize((int(width), int(height))).save(path, quality=90)


def some_of(folder: Path, target: Path, most: int) -> None:
    """Links to ``most`` of the images, evenly spaced, one folder a class."""
    files = sorted(folder.glob("*/*.jpg"))
    for file in files[:: max(1, len(files) // most)][:most]:
        link = target / file.parent.name / file.name
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(file.resolve())


def resized_files(folder: Path, target: Path) -> None:
    """The images with a shorter side of 256 pixels, as JPEGs of quality 95."""
    for file in folder.glob("*/*.jpg"):
        path = target / file.parent.name / file.name
        path.parent.mkdir(parents=True, exist_ok=True)
        transforms.Resize(STORED)(Image.open(file).convert("RGB")).save(path, quality=95)


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--images", type=Path)
    asked.add_argument("--most", type=int, default=2000)
    asked.add_argument("--rounds", type=int, default=5)
    asked.add_argument("--batches", type=int, default=12)
    asked.add_argument("--write", action="store_true")
    given = asked.parse_args()
    cores = available_cores()
    with TemporaryDirectory() as name:
        home = Path(name)
        files, small = home / "files", home / "small"
        if given.images is None:
            photographs(files, given.most)
        else:
            some_of(given.images, files, given.most)
        resized_files(files, small)
        images = data.load("folder", files)
        stores: dict[str, ImageStore] = {}
        lines = []
        for kind in ("raw", "jpeg"):
            began = time.perf_counter()
            stores[kind] = data.open_store(images, STORED, home / "cache", kind=kind)
            pace = len(images) / (time.perf_counter() - began) / cores
            size = sum(f.stat().st_size for f in (home / "cache").rglob("*") if f.is_file())
            if kind == "jpeg":
                size -= sum(path.stat().st_size for path in stores["raw"].paths)
            each = size / len(images) / 1000
            lines.append(f"| {kind} | {each:.0f} kB | {pace:.0f} |")
        tables = []
        for views, preset in PRESETS.items():
            colour = views != "crops"
            streams: dict[str, Stream] = {
                f"`data.store={kind}`": partial(ours, store, data.preset(preset), cores)
                for kind, store in stores.items()
            }
            for where, folder in (("", files), (", files at 256 px", small)):
                streams[f"torchvision{where}"] = partial(of_torchvision, folder, colour, cores)
                streams[f"timm{where}"] = partial(of_timm, folder, colour, cores)
            found = speeds(streams, given.rounds, given.batches)
            raw, jpeg = (found[f"`data.store={kind}`"][1] for kind in stores)
            rows = [
                f"| {one} | {speed / cores:.0f} | {busy:.0f} | {raw / busy:.2f} | "
                f"{jpeg / busy:.2f} |"
                for one, (speed, busy) in found.items()
            ]
            tables.append(
                f"## {views.capitalize()}\n\n"
                "| loader | images/s per core | images per CPU second | raw is so many times as "
                "fast | jpeg is |\n|---|---:|---:|---:|---:|\n" + "\n".join(rows)
            )
    subject = "photographs made for the occasion"
    if given.images is not None:
        subject = f"images of {given.images.parent.name}"
    text = PAGE.format(
        command=f"python benchmarks/feeding.py{' --images FOLDER' if given.images else ''} "
        f"--most {given.most} --rounds {given.rounds} --batches {given.batches} --write",
        subject=f"{len(images):,} {subject}",
        cores=cores,
        machine=f"{machine()}, torchvision {torchvision.__version__.partition('+')[0]}, "
        f"timm {timm.__version__}",
        stores="\n".join(lines),
        tables="\n\n".join(tables),
    )
    print(text)
    if given.write:
        (DOCS / "feeding.md").write_text(text, encoding="utf-8")


PAGE = """# Feeding: speed

Written by `{command}`:
{subject}, {cores} workers each; {machine}.
All loaders take turns in one run, and medians are compared: of images per CPU second, which other
work on the machine does not change much ("images/s per core" is by the clock). Each makes batches
of 64 at 224 px, float32 and normalised: random resized crops (area 0.08 to 1) and flips, and the
same with changed colours. Ours reads its [stores](../data.md#the-image-cache) at 256 px by threads.
torchvision (`ImageFolder`, `DataLoader`) and timm (`create_loader`) read the files by processes:
the originals, and JPEGs that were resized to 256 px beforehand.

{tables}

## Building the stores

| store | an image takes | images/s per core |
|---|---:|---:|
{stores}

<!-- commands not run: they take minutes -->
"""


if __name__ == "__main__":
    main()
