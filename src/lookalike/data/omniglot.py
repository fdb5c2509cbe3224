"""Omniglot: handwritten characters of many alphabets, each drawn once by 20 people.

Lake, Salakhutdinov and Tenenbaum, Science 2015. The archives unpack to one folder per alphabet and,
in it, one folder per character.
"""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np

from lookalike.data.image_set import ImageSet
from lookalike.data.listed_images import from_files
from lookalike.data.official import Counts, checked, require
from lookalike.registry import DATASETS

OMNIGLOT = Counts(train_images=19_280, test_images=13_180, train_classes=964, test_classes=659)
OMNIGLOT_SMALL = Counts(train_images=2_720, test_images=2_120, train_classes=136, test_classes=106)

_PAPER = "Lake et al., Science 2015"


@DATASETS.register("omniglot", paper=_PAPER)
def omniglot(root: Path | None = None, expected: Counts = OMNIGLOT) -> ImageSet:
    """Omniglot: 32,460 drawings of 1,623 characters in 50 alphabets.

    The alphabets of the background set train, those of the evaluation set test.
    """
    train, test = "images_background", "images_evaluation"
    home = _home("omniglot", root, train, test)
    return _read("omniglot", home, _alphabets(home / train), _alphabets(home / test), expected)


@DATASETS.register("omniglot-small", paper=_PAPER)
def omniglot_small(root: Path | None = None, expected: Counts = OMNIGLOT_SMALL) -> ImageSet:
    """Omniglot's two reduced background sets: 4,840 drawings of 242 characters in 8 alphabets.

    The five alphabets of the first train; those that only the second has (Japanese, Sanskrit,
    Tagalog) test.
    """
    first, second = "images_background_small1", "images_background_small2"
    home = _home("omniglot-small", root, first, second)
    train = _alphabets(home / first)
    known = {folder.name for folder in train}
    test = [folder for folder in _alphabets(home / second) if folder.name not in known]
    return _read("omniglot-small", home, train, test, expected)


def _home(name: str, root: Path | None, *parts: str) -> Path:
    return require(name, root, "omniglot", parts, " and ".join(f"{part}/" for part in parts))


def _alphabets(folder: Path) -> list[Path]:
    return sorted(entry for entry in folder.iterdir() if entry.is_dir())


def _read(name: str, home: Path, train: list[Path], test: list[Path], expected: Counts) -> ImageSet:
    """The characters of ``train``, then those of ``test``; alphabets are the super-classes."""
    files: list[str] = []
    characters: list[str] = []
    labels: list[int] = []
    alphabets: list[int] = []
    for number, alphabet in enumerate((*train, *test)):
        for character in _alphabets(alphabet):
            drawings = sorted(character.glob("*.png"))
            files += _relative(drawings, home)
            labels += [len(characters)] * len(drawings)
            alphabets += [number] * len(drawings)
            characters.append(f"{alphabet.name}/{character.name}")
    trained = len(train)
    images = from_files(
        name,
        home,
        files,
        np.array(labels, np.int64),
        characters,
        test=np.array(alphabets, np.int64) >= trained,
    )
    found = checked(images, expected, home)
    return replace(found, super_labels=np.array(alphabets, np.int64))


def _relative(paths: Iterable[Path], home: Path) -> list[str]:
    return [path.relative_to(home).as_posix() for path in paths]
