"""Small collections of pictures, and what ``lookalike train data.name=folder`` makes of them.

    python benchmarks/folder_recipe.py --cub FOLDER --omniglot FOLDER [--seeds 5] [--write]
    python benchmarks/folder_recipe.py --cub FOLDER --omniglot FOLDER --choose [--draws 1]
        [--settings NAME ...] [--write]

FOLDER of --cub holds CUB_200_2011, that of --omniglot the alphabets' folders, at any depth. Every
source is cut in two parts: CUB-200-2011 in the first and the last hundred species, Omniglot in two
sets of alphabets, the built-in glyphs in the halves of the data set.

--choose compares settings on classes of the first part alone: some are the training classes of a
collection, of which the recipe takes its own to validate on; others are held out, and scored.
Without it, the recipe is tested: training classes from the first part, as many test classes from
the second, beside what needs no training. Pictures and runs lie in --work and are found again;
--write puts the table into docs/benchmarks/.
"""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import gettempdir

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from lookalike import data
from lookalike.config import RunConfig, load
from lookalike.data import ImageSet, Split, Subset
from lookalike.progress import Watcher
from lookalike.study.intervals import interval
from lookalike.training import train
from lookalike.training.building import PreparedParts
from lookalike.training.loop import TrainingLoop
from lookalike.training.score import score
from setting import DOCS, machine

Pictures = list[Callable[[Path], object]]
"""The pictures of a class: each writes itself to a path, given without suffix."""
Classes = dict[str, Pictures]

METRICS = {"recall@1": "Recall@1", "map@r": "MAP@R"}
SECOND_ALPHABETS = ("Balinese", "Japanese_(katakana)", "Sanskrit", "Tagalog")
"""Omniglot's alphabets of the second part."""
HELD_OUT = 50
"""At most so many classes are held out while settings are compared."""


@dataclass(frozen=True)
class Collection:
    """So many classes to train on, and so many pictures of each."""

    source: str
    classes: int
    pictures: int

    @property
    def name(self) -> str:
        """Such as ``cub-25x30``."""
        return f"{self.source}-{self.classes}x{self.pictures}"


TESTED = (
    Collection("cub", 10, 30),
    Collection("cub", 25, 30),
    Collection("cub", 50, 20),
    Collection("cub", 100, 10),
    Collection("omniglot", 50, 20),
    Collection("glyphs", 100, 10),
)
CHOSEN_ON = tuple(one for one in TESTED if one.name != "cub-100x10")
"""CUB's first part has no classes left to hold out beside a hundred."""

SETTINGS = {
    "rates 1e-4": ["optim.lr=1e-4", "optim.head_lr=1e-4"],
    "rates 3e-4": ["optim.lr=3e-4", "optim.head_lr=3e-4"],
    "4 augmented views": ["model.frozen_views=4"],
    "rates 1e-4, 4 augmented views": [
        "optim.lr=1e-4",
        "optim.head_lr=1e-4",
        "model.frozen_views=4",
    ],
}
"""What is compared with the recipe as it is."""


def parts_of(source: str, given: argparse.Namespace) -> tuple[Classes, Classes]:
    """The classes of both parts of a source."""
    parts: tuple[Classes, Classes] = {}, {}
    if source == "cub":
        for species in sorted((given.cub / "CUB_200_2011" / "images").iterdir()):
            number = int(species.name.partition(".")[0])
            parts[number > 100][species.name] = [copied(f) for f in sorted(species.glob("*.jpg"))]
    elif source == "omniglot":
        for character in sorted(given.omniglot.rglob("character*")):
            alphabet = character.parent.name
            name = f"{alphabet}-{character.name}"  # the archives have some alphabets in common
            pictures = [copied(file) for file in sorted(character.glob("*.png"))]
            parts[alphabet in SECOND_ALPHABETS][name] = pictures
    else:
        images = data.load("glyphs")
        for index, label in enumerate(images.labels.tolist()):
            drawing = Image.fromarray(images.decode(index)[:, :, 0])
            part = parts[bool(images.test[index])]
            part.setdefault(f"glyph-{label:04d}", []).append(saved(drawing))
    return parts


def copied(file: Path) -> Callable[[Path], object]:
    """The bytes of a file."""
    return lambda path: path.with_name(path.name + file.suffix).write_bytes(file.read_bytes())


def saved(drawing: Image.Image) -> Callable[[Path], object]:
    """A picture in memory."""
    return lambda path: drawing.save(path.with_name(f"{path.name}.png"))


def fill(folder: Path, classes: Sequence[tuple[str, Pictures]], count: int) -> Path:
    """A folder with ``count`` pictures of each class, drawn by a fixed seed; made once."""
    if folder.is_dir():
        return folder
    drawn = np.random.default_rng(0)
    draft = folder.with_name(f".{folder.name}")
    for name, pictures in classes:
        (draft / name).mkdir(parents=True, exist_ok=True)
        for number in np.sort(drawn.permutation(len(pictures))[:count]):
            pictures[number](draft / name / f"{number:03d}")
    return draft.rename(folder)


def drawn_classes(part: Classes, pictures: int, seed: int) -> list[tuple[str, Pictures]]:
    """The classes that have so many pictures, in a random order."""
    fit = [(name, found) for name, found in sorted(part.items()) if len(found) >= pictures]
    return [fit[i] for i in np.random.default_rng(seed).permutation(len(fit))]


def tested_folder(collection: Collection, given: argparse.Namespace) -> Path:
    """The pictures of a collection; ``data.name=folder`` tests on the later half of the names."""
    classes = []
    parts = parts_of(collection.source, given)
    for half, part in zip(("seen", "unseen"), parts, strict=True):
        chosen = drawn_classes(part, collection.pictures, seed=0)[: collection.classes]
        classes += [(f"{half}-{name}", pictures) for name, pictures in chosen]
    return fill(given.work / collection.name, classes, collection.pictures)


def test(given: argparse.Namespace) -> list[str]:
    """The recipe on test classes, ``given.seeds`` times, beside what needs no training."""
    metrics = f"protocol.metrics=[{','.join(METRICS)}]"
    blind = ["protocol.name=paper", "train.epochs=0"]
    lines = []
    for collection in TESTED:
        where = [f"data.root={tested_folder(collection, given)}", f"runs_dir={given.work / 'runs'}"]

        def tested(*settings: str, where: list[str] = where) -> dict[str, dict[str, float]]:
            result: dict[str, dict[str, float]] = train(
                load("recipe:folder", [*where, metrics, *settings])
            ).result
            return result

        raw = tested(*blind, "model.dim=0", "model.head_init=random")["test"]
        lda = tested(*blind, "model.head_init=lda")["test"]
        runs = [tested(f"seed={seed}") for seed in range(given.seeds)]
        chosen = ", ".join(str(run["chosen_epoch"]) for run in runs)
        for metric, name in METRICS.items():
            found = interval([100 * run["test"][metric] for run in runs])
            gain = found.mean - 100 * max(raw[metric], lda[metric])
            lines.append(
                f"| {collection.name} | {name} | {100 * raw[metric]:.1f} | {100 * lda[metric]:.1f} "
                f"| {found.mean:.1f} ({found.low:.1f} to {found.high:.1f}) | {gain:+.1f} "
                f"| {chosen} |"
            )
            print(lines[-1], flush=True)
    return [
        "| collection | per cent | untrained | LDA | `recipe:folder` (95 % interval) "
        "| over the better | chosen epochs |",
        "|---|---|---:|---:|---:|---:|---|",
        *lines,
    ]


def choose(given: argparse.Namespace) -> list[str]:
    """Every setting on the collections of the first parts: scores of the classes held out."""
    lines = []
    for collection in CHOSEN_ON:
        first = drawn_classes(parts_of(collection.source, given)[0], collection.pictures, seed=0)
        first = first[:150]
        folder = given.work / f"{collection.source}-first-{collection.pictures}"
        images = data.load("folder", fill(folder, first, collection.pictures))
        compared = {"the recipe": []} | {name: SETTINGS[name] for name in given.settings}
        for name, settings in compared.items():
            rows = [
                held_out_scores(collection, images, load("recipe:folder", [*settings, seed]))
                for seed in (f"seed={draw}" for draw in range(given.draws))
            ]
            start, end = np.mean(rows, axis=0)
            lines.append(
                f"| {collection.name} | {name} | "
                + " | ".join(f"{value:.1f}" for value in (*start, *end))
                + " |"
            )
            print(lines[-1], flush=True)
    heads = [f"{name}, {when}" for when in ("epoch 0", "chosen") for name in METRICS.values()]
    return [
        f"| collection | settings | {' | '.join(heads)} |",
        "|---|---|---:|---:|---:|---:|",
        *lines,
    ]


def held_out_scores(
    collection: Collection, images: ImageSet, config: RunConfig
) -> tuple[list[float], list[float]]:
    """Per cent before training, and of the epoch that validation chose; classes by the seed."""
    order = np.random.default_rng([config.seed, collection.classes]).permutation(
        np.unique(images.labels)
    )
    validating = max(2, round(collection.classes * (1 - config.protocol.ratio)))
    parts = np.split(
        order, [validating, collection.classes, min(len(order), collection.classes + HELD_OUT)]
    )
    validation, training, held_out = (subset(images, classes) for classes in parts[:3])
    split = Split(training, validation, held_out, protocol="fixed-validation")
    parts = PreparedParts(loaded=images)
    bundle = parts.bundle(config)
    learning = Traced(config, parts.fabric(config), split, bundle, Watcher())
    learning.learn(lambda: parts.initial_head(config, bundle.model, split, bundle.source))
    return learning.start, learning.scores()


class Traced(TrainingLoop):
    """A training that scores the classes held out before its first step."""

    start: list[float]

    def scores(self) -> list[float]:
        """Of the classes held out, in per cent."""
        subset = self.split.final_test() if not hasattr(self, "held_out") else self.held_out
        self.held_out = subset
        found = score(self.embed(subset, ""), subset, tuple(METRICS))
        return [100 * found[metric] for metric in METRICS]

    def save_start(self) -> None:
        """The state before training is there."""
        self.start = self.scores()


def subset(images: ImageSet, classes: NDArray[np.int64]) -> Subset:
    """The images of some classes."""
    classes = np.sort(classes)
    indices = np.flatnonzero(np.isin(images.labels, classes))
    return Subset(images, indices, np.searchsorted(classes, images.labels[indices]), classes)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    arguments.add_argument("--cub", type=Path, required=True)
    arguments.add_argument("--omniglot", type=Path, required=True)
    arguments.add_argument("--work", type=Path, default=Path(gettempdir()) / "folder-recipe")
    arguments.add_argument("--seeds", type=int, default=5)
    arguments.add_argument("--choose", action="store_true")
    arguments.add_argument("--draws", type=int, default=1)
    arguments.add_argument("--settings", nargs="*", choices=SETTINGS, default=list(SETTINGS))
    arguments.add_argument("--write", action="store_true")
    given = arguments.parse_args()
    given.work.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    table = choose(given) if given.choose else test(given)
    page = "folder_settings.md" if given.choose else "folder_recipe.md"
    named = " ".join(f"'{name}'" for name in given.settings)
    mode = f"--seeds {given.seeds}"
    if given.choose:
        mode = f"--choose --draws {given.draws} --settings {named}"
    lines = [
        "# Your own pictures: " + ("settings compared" if given.choose else "the recipe tested"),
        "",
        "Written by `python benchmarks/folder_recipe.py --cub data --omniglot data/omniglot "
        f"{mode} --write`; {machine()}.",
        "",
        *table,
    ]
    print("\n".join(lines))
    if given.write:
        (DOCS / page).write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
