"""Small collections of pictures, and what ``lookalike train data.name=folder`` makes of them.

Collections of 10 to 100 training classes and as many test classes are drawn from CUB-200-2011,
Omniglot and the built-in glyphs. Every source is cut in two: training classes come from its first
part, test classes from its second (CUB: the first and the last hundred species; Omniglot: other
alphabets; glyphs: the halves of the data set). ``--develop`` draws both from the first part, to
choose settings on; the second part is looked at by the final table only.

    python benchmarks/folder_recipe.py --cub FOLDER --omniglot FOLDER [--seeds 5] [--write]
    python benchmarks/folder_recipe.py --cub FOLDER --omniglot FOLDER --develop KEY=VALUE ...

FOLDER of --cub holds CUB_200_2011, that of --omniglot the alphabets' folders, at any depth. Runs
and pictures lie in --work and are found again there. --write puts the table into
docs/benchmarks/folder_recipe.md.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from lookalike import data

Pictures = list[Callable[[Path], None]]
"""The pictures of a class: each writes itself to a path without suffix."""
Classes = dict[str, Pictures]

SECOND_ALPHABETS = ("Balinese", "Japanese_(katakana)", "Sanskrit", "Tagalog")
"""Omniglot's alphabets of the second part."""


@dataclass(frozen=True)
class Collection:
    """So many classes to train on, as many to test on, and so many pictures of each."""

    source: str
    classes: int
    pictures: int

    @property
    def name(self) -> str:
        """Such as ``cub-25x30``."""
        return f"{self.source}-{self.classes}x{self.pictures}"


COLLECTIONS = (
    Collection("cub", 10, 30),
    Collection("cub", 25, 30),
    Collection("cub", 50, 20),
    Collection("cub", 100, 20),
    Collection("omniglot", 50, 20),
    Collection("glyphs", 50, 10),
)


def cub_classes(folder: Path) -> tuple[Classes, Classes]:
    """Species 1 to 100, and 101 to 200."""
    species = sorted((folder / "CUB_200_2011" / "images").iterdir())
    found = [{one.name: [copied(file) for file in sorted(one.glob("*.jpg"))]} for one in species]
    return merged(found[:100]), merged(found[100:])


def omniglot_classes(folder: Path) -> tuple[Classes, Classes]:
    """The characters of some alphabets, and of the others."""
    parts: tuple[Classes, Classes] = {}, {}
    for character in sorted(folder.rglob("character*")):
        alphabet = character.parent.name
        files = [copied(file) for file in sorted(character.glob("*.png"))]
        parts[alphabet in SECOND_ALPHABETS][f"{alphabet}-{character.name}"] = files
    return parts


def glyph_classes() -> tuple[Classes, Classes]:
    """The training and the test half of the data set."""
    images = data.load("glyphs")
    parts: tuple[Classes, Classes] = {}, {}
    for index, label in enumerate(images.labels.tolist()):
        drawing = Image.fromarray(images.decode(index)[:, :, 0])
        part = parts[bool(images.test[index])]
        part.setdefault(f"glyph-{label:04d}", []).append(saved(drawing))
    return parts


def merged(parts: list[Classes]) -> Classes:
    """One mapping."""
    return {name: pictures for part in parts for name, pictures in part.items()}


def copied(file: Path) -> Callable[[Path], None]:
    """The bytes of a file."""
    return lambda path: path.with_suffix(file.suffix).write_bytes(file.read_bytes()) and None


def saved(drawing: Image.Image) -> Callable[[Path], None]:
    """A picture in memory."""
    return lambda path: drawing.save(path.with_suffix(".png"))


def draw(
    collection: Collection, parts: tuple[Classes, Classes], home: Path, seed: int, develop: bool
) -> Path:
    """The folder of a collection: ``train-``... sorts before ``unseen-``..., one folder a class."""
    folder = home / f"{collection.name}-{'develop' if develop else 'final'}-{seed}"
    if folder.is_dir():
        return folder
    drawn = np.random.default_rng([seed, collection.classes, collection.pictures])
    first, second = (
        [name for name in sorted(part) if len(part[name]) >= collection.pictures] for part in parts
    )
    count = collection.classes
    if develop:
        count = min(count, len(first) // 2)
        order = drawn.permutation(first)
        halves = order[:count], order[count : 2 * count]
    else:
        halves = drawn.permutation(first)[:count], drawn.permutation(second)[:count]
    draft = folder.with_suffix(".draft")
    for half, names in zip(("train", "unseen"), halves, strict=True):
        for name in names:
            pictures = (parts[0] | parts[1])[name]
            place = draft / f"{half}-{name}"
            place.mkdir(parents=True, exist_ok=True)
            for number in np.sort(drawn.permutation(len(pictures))[: collection.pictures]):
                pictures[number](place / f"{number:03d}")
    draft.rename(folder)
    return folder


def sources(cub: Path, omniglot: Path) -> Iterator[tuple[str, tuple[Classes, Classes]]]:
    """Both parts of every source."""
    yield "cub", cub_classes(cub)
    yield "omniglot", omniglot_classes(omniglot)
    yield "glyphs", glyph_classes()
