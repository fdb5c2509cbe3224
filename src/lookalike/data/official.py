"""The benchmark data sets of the field in their official layouts, with their published counts."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lookalike.data.image_set import ImageSet
from lookalike.data.listed_images import Mask, from_listing
from lookalike.data.listing import in_folder
from lookalike.errors import BadInput
from lookalike.files import read_text
from lookalike.registry import DATASETS


@dataclass(frozen=True)
class Counts:
    """Images and classes of the two halves of a data set; query and gallery where defined.

    Attributes:
        train_images: In the training half.
        test_images: In the test half.
        train_classes: In the training half.
        test_classes: In the test half.
        query_images: Queries of the test half.
        gallery_images: The gallery of the test half.
    """

    train_images: int
    test_images: int
    train_classes: int
    test_classes: int
    query_images: int | None = None
    gallery_images: int | None = None

    def __str__(self) -> str:
        text = (
            f"{self.train_images:,} training images of {self.train_classes:,} classes and "
            f"{self.test_images:,} test images of {self.test_classes:,} classes"
        )
        if self.query_images is not None:
            text += f" ({self.query_images:,} query, {self.gallery_images:,} gallery)"
        return text

    @staticmethod
    def of(images: ImageSet) -> "Counts":
        """The counts of a data set as it was found."""
        test = images.test
        return Counts(
            train_images=int((~test).sum()),
            test_images=int(test.sum()),
            train_classes=len(np.unique(images.labels[~test])),
            test_classes=len(np.unique(images.labels[test])),
            query_images=None if images.query is None else int(images.query.sum()),
            gallery_images=None if images.gallery is None else int(images.gallery.sum()),
        )


CUB = Counts(train_images=5_864, test_images=5_924, train_classes=100, test_classes=100)
CARS = Counts(train_images=8_054, test_images=8_131, train_classes=98, test_classes=98)
SOP = Counts(train_images=59_551, test_images=60_502, train_classes=11_318, test_classes=11_316)
OMNIGLOT = Counts(train_images=19_280, test_images=13_180, train_classes=964, test_classes=659)
OMNIGLOT_SMALL = Counts(train_images=2_720, test_images=2_120, train_classes=136, test_classes=106)
INSHOP = Counts(25_882, 26_830, 3_997, 3_985, query_images=14_218, gallery_images=12_612)

_SOP_HEADER = ["image_id", "class_id", "super_class_id", "path"]
_INSHOP_HEADER = ["image_name", "item_id", "evaluation_status"]
_INSHOP_PARTS = ("train", "query", "gallery")


@DATASETS.register("cub", paper="Wah et al., Caltech technical report 2011")
def cub(root: Path | None = None, expected: Counts = CUB) -> ImageSet:
    """CUB-200-2011: 11,788 photos of 200 kinds of birds; 100 to train, 100 to test.

    The first half of the class numbers is the training half.
    """
    needed = ("images.txt", "image_class_labels.txt", "classes.txt", "images")
    home = require("cub", root, "CUB_200_2011", needed)
    files = _numbered_lines(home / "images.txt")
    classes = _numbered_lines(home / "classes.txt")
    class_of = _numbered_lines(home / "image_class_labels.txt")
    if files.keys() != class_of.keys():
        raise BadInput(f"{home}: images.txt and image_class_labels.txt number different images")
    position = {number: index for index, number in enumerate(sorted(classes))}
    try:
        labels = np.array([position[int(class_of[i])] for i in files], np.int64)
    except (KeyError, ValueError) as error:
        raise BadInput(
            f"{home / 'image_class_labels.txt'} names class {error}, which classes.txt lacks"
        ) from error
    names = [classes[number] for number in sorted(classes)]
    test = labels >= expected.train_classes
    return _official("cub", home / "images", list(files.values()), labels, names, expected, test)


@DATASETS.register("cars", paper="Krause et al., 3dRR Workshop 2013")
def cars(root: Path | None = None, expected: Counts = CARS) -> ImageSet:
    """Cars196: 16,185 photos of 196 models of cars; 98 to train, 98 to test.

    The first half of the class numbers is the training half. The file's own ``test`` column is the
    split for classification, with every class in both parts; metric learning does not use it.
    """
    home = require("cars", root, "cars196", ("cars_annos.mat", "car_ims"))
    path = home / "cars_annos.mat"
    try:
        from scipy.io import loadmat

        table = loadmat(path, squeeze_me=True)
        rows = np.atleast_1d(table["annotations"])
        class_names = [str(name) for name in np.atleast_1d(table["class_names"])]
        files = [str(file) for file in rows["relative_im_path"]]
        labels = rows["class"].astype(np.int64) - 1
    except Exception as error:  # a broken .mat file makes scipy raise almost any exception
        raise BadInput(f"cannot read the annotations in {path}: {error}") from error
    if len(labels) and not 0 <= labels.min() <= labels.max() < len(class_names):
        raise BadInput(f"{path} numbers classes outside 1..{len(class_names)}")
    test = labels >= expected.train_classes
    return _official("cars", home, files, labels, class_names, expected, test)


@DATASETS.register("sop", paper="Oh Song et al., CVPR 2016")
def sop(root: Path | None = None, expected: Counts = SOP) -> ImageSet:
    """Stanford Online Products: 120,053 photos of 22,634 things for sale.

    The two lists are the two halves.
    """
    lists = ("Ebay_train.txt", "Ebay_test.txt")
    home = require("sop", root, "Stanford_Online_Products", lists)
    halves = [_sop_rows(home / name) for name in lists]
    rows = halves[0] + halves[1]
    numbers, labels = np.unique(np.array([row[0] for row in rows], np.int64), return_inverse=True)
    category_of = {number: file.partition("_final/")[0] for number, file in rows}
    images = _official(
        "sop",
        home,
        [file for _, file in rows],
        labels.astype(np.int64),
        [f"{category_of[int(number)]} {number}" for number in numbers],
        expected,
        test=np.arange(len(rows)) >= len(halves[0]),
    )
    categories = np.unique([category_of[number] for number, _ in rows], return_inverse=True)[1]
    return replace(images, super_labels=categories.astype(np.int64))


def _sop_rows(path: Path) -> list[tuple[int, str]]:
    """Class number and file of every line."""
    lines = _lines(path)
    if not lines or lines[0].split() != _SOP_HEADER:
        raise BadInput(f"{path}: the first line should read '{' '.join(_SOP_HEADER)}'")
    rows = []
    for line in lines[1:]:
        fields = line.split(maxsplit=3)
        if len(fields) != 4 or not fields[1].isdecimal():
            raise BadInput(f"{path}: expected '{' '.join(_SOP_HEADER)}', found '{line}'")
        rows.append((int(fields[1]), fields[3]))
    return rows


@DATASETS.register("inshop", paper="Liu et al., CVPR 2016")
def inshop(root: Path | None = None, expected: Counts = INSHOP) -> ImageSet:
    """In-Shop Clothes Retrieval: 52,712 photos of 7,982 pieces of clothing.

    Classes are the item ids in sorted order.
    """
    home = require("inshop", root, "InShop_Clothes", ("list_eval_partition.txt", "img"))
    path = home / "list_eval_partition.txt"
    lines = _lines(path)
    if len(lines) < 2 or lines[1].split() != _INSHOP_HEADER:
        raise BadInput(f"{path}: the second line should read '{' '.join(_INSHOP_HEADER)}'")
    rows = [line.split() for line in lines[2:]]
    for row in rows:
        if len(row) != 3 or row[2] not in _INSHOP_PARTS:
            raise BadInput(
                f"{path}: expected a file, an item and one of {', '.join(_INSHOP_PARTS)}; "
                f"found '{' '.join(row)}'"
            )
    items, labels = np.unique([row[1] for row in rows], return_inverse=True)
    parts = np.array([row[2] for row in rows])
    return _official(
        "inshop",
        home,
        [row[0] for row in rows],
        labels.astype(np.int64),
        [str(item) for item in items],
        expected,
        test=parts != "train",
        query=parts == "query",
        gallery=parts == "gallery",
    )


@DATASETS.register("omniglot", paper="Lake et al., Science 2015")
def omniglot(root: Path | None = None, expected: Counts = OMNIGLOT) -> ImageSet:
    """Omniglot: 32,460 drawings of 1,623 characters in 50 alphabets.

    The alphabets of the background set train, those of the evaluation set test.
    """
    train, test = "images_background", "images_evaluation"
    home = _omniglot_home("omniglot", root, train, test)
    return _read_omniglot("omniglot", home, _folders(home / train), _folders(home / test), expected)


@DATASETS.register("omniglot-small", paper="Lake et al., Science 2015")
def omniglot_small(root: Path | None = None, expected: Counts = OMNIGLOT_SMALL) -> ImageSet:
    """Omniglot's two reduced background sets: 4,840 drawings of 242 characters in 8 alphabets.

    The five alphabets of the first train; those that only the second has (Japanese, Sanskrit,
    Tagalog) test.
    """
    first, second = "images_background_small1", "images_background_small2"
    home = _omniglot_home("omniglot-small", root, first, second)
    train = _folders(home / first)
    known = {folder.name for folder in train}
    test = [folder for folder in _folders(home / second) if folder.name not in known]
    return _read_omniglot("omniglot-small", home, train, test, expected)


def _omniglot_home(name: str, root: Path | None, *parts: str) -> Path:
    return require(name, root, "omniglot", parts, " and ".join(f"{part}/" for part in parts))


def _folders(folder: Path) -> list[Path]:
    return sorted(entry for entry in folder.iterdir() if entry.is_dir())


def _read_omniglot(
    name: str, home: Path, train: list[Path], test: list[Path], expected: Counts
) -> ImageSet:
    """The characters of ``train``, then those of ``test``; alphabets are the super-classes."""
    files: list[str] = []
    characters: list[str] = []
    labels: list[int] = []
    alphabets: list[int] = []
    for number, alphabet in enumerate((*train, *test)):
        for character in _folders(alphabet):
            drawings = sorted(character.glob("*.png"))
            files += _relative(drawings, home)
            labels += [len(characters)] * len(drawings)
            alphabets += [number] * len(drawings)
            characters.append(f"{alphabet.name}/{character.name}")
    kinds = np.array(alphabets, np.int64)
    tests, classes = kinds >= len(train), np.array(labels, np.int64)
    images = _official(name, home, files, classes, characters, expected, tests)
    return replace(images, super_labels=kinds)


def _relative(paths: Iterable[Path], home: Path) -> list[str]:
    return [path.relative_to(home).as_posix() for path in paths]


def require(
    name: str, root: Path | None, inner: str, needed: Sequence[str], holds: str = ""
) -> Path:
    """The folder with the official layout: ``root`` itself or ``root/inner``.

    BadInput names what is missing, and where. ``holds``: what a user finds in the root, where that
    is not the inner folder.
    """
    if root is None:
        raise BadInput(f"'{name}' needs data.root: the folder that holds {holds or f'{inner}/'}")
    if not root.is_dir():
        raise BadInput(
            f"data.root of '{name}' is no folder: {root}; "
            f"'lookalike data prepare {name} --root {root}' downloads it"
        )
    home = root / inner if (root / inner).is_dir() else root
    missing = [entry for entry in needed if not (home / entry).exists()]
    if missing:
        raise BadInput(
            f"{home} does not hold '{name}' in its official layout: "
            f"{' and '.join(missing)} expected there"
        )
    return home


def _official(
    name: str,
    folder: Path,
    files: Sequence[str],
    labels: NDArray[np.int64],
    class_names: Sequence[str],
    expected: Counts,
    test: NDArray[np.bool_],
    query: Mask = None,
    gallery: Mask = None,
) -> ImageSet:
    """The images in ``files``, which are relative to ``folder``, refused if there are not as many.

    The published results were made without the orientation of EXIF data.
    """
    listing = in_folder(folder, files)
    images = from_listing(
        name, listing, labels, class_names, test, query=query, gallery=gallery, upright=False
    )
    found = Counts.of(images)
    if found != expected:
        raise BadInput(f"'{name}' in {folder}: found {found}; expected {expected}")
    return images


def _lines(path: Path) -> list[str]:
    """The lines of a UTF-8 text file, stripped, without empty ones."""
    try:
        text = read_text(path)
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"cannot read {path}: {error}") from error
    return [line.strip() for line in text.splitlines() if line.strip()]


def _numbered_lines(path: Path) -> dict[int, str]:
    """A file of lines ``number text`` as a dictionary, in the order of the file."""
    table: dict[int, str] = {}
    for line in _lines(path):
        number, _, text = line.partition(" ")
        if not number.isdecimal() or not text:
            raise BadInput(f"{path}: expected a number and a text, found '{line}'")
        table[int(number)] = text.strip()
    return table
