"""The official layouts, in small: what they share and what each has of its own."""

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from lookalike.data import Counts, ImageSet, load, prepare
from lookalike.data.loading import Archive
from lookalike.data.official import (
    CARS,
    CUB,
    INSHOP,
    OMNIGLOT,
    OMNIGLOT_SMALL,
    SOP,
    cars,
    cub,
    inshop,
    omniglot,
    omniglot_small,
    sop,
)
from lookalike.errors import BadInput

TINY = Counts(4, 4, 2, 2)
TINY_INSHOP = Counts(4, 6, 2, 2, 2, 4)
READERS: dict[str, tuple[Callable[[Path | None, Counts], ImageSet], Counts, str]] = {
    "cub": (cub, TINY, "CUB_200_2011"),
    "cars": (cars, TINY, "cars196"),
    "sop": (sop, TINY, "Stanford_Online_Products"),
    "inshop": (inshop, TINY_INSHOP, "InShop_Clothes"),
    "omniglot": (omniglot, TINY, "omniglot"),
    "omniglot-small": (omniglot_small, TINY, "omniglot"),
}
TEXTS = {
    "cub": "images.txt",
    "cars": "cars_annos.mat",
    "sop": "Ebay_test.txt",
    "inshop": "list_eval_partition.txt",
    "omniglot": "images_background and images_evaluation",
    "omniglot-small": "images_background_small1 and images_background_small2",
}
LISTS = ("cub", "cars", "sop", "inshop")
"""Those that have a file with the names of their images."""


@pytest.fixture
def tiny(request: pytest.FixtureRequest) -> Callable[[str], Path]:
    return lambda name: request.getfixturevalue(f"tiny_{name.replace('-', '_')}")


@pytest.mark.parametrize("name", READERS)
def test_reads_from_the_folder_or_the_one_above(tiny, name):
    read, counts, inner = READERS[name]
    root = tiny(name)
    images = read(root, counts)
    assert images.name == name
    assert Counts.of(images) == counts
    assert images.decode(len(images) - 1).shape == (20, 24, 3)
    assert read(root / inner, counts).fingerprint == images.fingerprint
    assert not set(images.labels[images.test]) & set(images.labels[~images.test])


@pytest.mark.parametrize("name", READERS)
def test_other_counts_than_the_published_are_refused(tiny, name):
    with pytest.raises(BadInput, match=r"found \d training images of \d classes.*expected \d+,\d"):
        load(name, tiny(name))


@pytest.mark.parametrize("name", READERS)
def test_a_missing_or_empty_root_is_refused(tmp_path, name):
    with pytest.raises(BadInput, match=r"needs data\.root"):
        load(name)
    with pytest.raises(BadInput, match="is no folder"):
        load(name, tmp_path / "gone")
    with pytest.raises(BadInput, match=f"official layout.*{TEXTS[name]}"):
        load(name, tmp_path)


@pytest.mark.parametrize("name", LISTS)
@pytest.mark.parametrize("content", [b"\xff\xfe nonsense", b"one two three\nfour five\n", b""])
def test_a_broken_list_is_refused(tiny, name, content):
    read, counts, inner = READERS[name]
    root = tiny(name)
    (root / inner / TEXTS[name]).write_bytes(content)
    with pytest.raises(BadInput, match=inner):
        read(root, counts)


def test_the_published_counts():
    assert (CUB.train_images, CUB.test_images) == (5_864, 5_924)
    assert (CARS.train_images, CARS.test_images) == (8_054, 8_131)
    assert (SOP.train_images, SOP.test_images) == (59_551, 60_502)
    assert (SOP.train_classes, SOP.test_classes) == (11_318, 11_316)
    assert INSHOP.train_images == 25_882
    assert INSHOP.test_images == 14_218 + 12_612
    assert (INSHOP.train_classes, INSHOP.test_classes) == (3_997, 3_985)
    assert (OMNIGLOT.train_classes, OMNIGLOT.test_classes) == (964, 659)
    assert (OMNIGLOT_SMALL.train_classes, OMNIGLOT_SMALL.test_classes) == (136, 106)
    for half in (OMNIGLOT, OMNIGLOT_SMALL):  # 20 people drew each character
        assert half.train_images == 20 * half.train_classes
        assert half.test_images == 20 * half.test_classes


def test_cub_classes_are_in_the_order_of_their_numbers(tiny_cub):
    images = cub(tiny_cub, TINY)
    assert images.class_names[0] == "001.Albatross"
    assert images.labels.tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    assert images.files[2] == "002.Auklet/002.Auklet_0.jpg"


@pytest.mark.parametrize("line", ["9 1", "8 77", "8 x"])
def test_cub_lists_that_contradict_each_other_are_refused(tiny_cub, line):
    path = tiny_cub / "CUB_200_2011" / "image_class_labels.txt"
    path.write_text("\n".join([*path.read_text().splitlines()[:7], line]))
    with pytest.raises(BadInput, match=r"image_class_labels\.txt"):
        cub(tiny_cub, TINY)


def test_cars_splits_by_class_not_by_the_test_column(tiny_cars):
    images = cars(tiny_cars, TINY)
    assert images.test.tolist() == [False] * 4 + [True] * 4
    assert images.class_names == ("Acura RL", "Acura TL", "BMW M3", "BMW X5")


def test_sop_names_its_products(tiny_sop):
    assert sop(tiny_sop, TINY).class_names[2] == "bicycle 3"


def test_inshop_has_query_and_gallery_in_the_test_half(tiny_inshop):
    images = inshop(tiny_inshop, TINY_INSHOP)
    assert images.query is not None
    assert images.gallery is not None
    assert np.array_equal(images.query | images.gallery, images.test)
    assert not (images.query & images.gallery).any()
    assert images.query.sum() == 2
    assert images.class_names[0] == "id_00000001"


def test_the_things_of_sop_belong_to_kinds(tiny_sop: Path) -> None:
    images = sop(tiny_sop, TINY)
    kinds = [file.partition("_final/")[0].rpartition("/")[2] for file in images.files]
    assert images.super_labels is not None
    assert [sorted(set(kinds))[number] for number in images.super_labels] == kinds


def test_omniglot_has_its_alphabets_as_super_classes(tiny_omniglot):
    images = omniglot(tiny_omniglot, TINY)
    assert images.class_names == (
        "Greek/character01", "Latin/character01", "Tengwar/character01", "Tengwar/character02",
    )  # fmt: skip
    assert images.super_labels.tolist() == [0, 0, 1, 1, 2, 2, 2, 2]
    assert images.test.tolist() == [False] * 4 + [True] * 4
    assert images.files[0] == "images_background/Greek/character01/0001_01.png"
    assert set(np.unique(images.decode(0))) == {0, 255}  # black ink on white paper


def test_alphabets_of_both_reduced_sets_train_and_do_not_test(tiny_omniglot_small):
    images = omniglot_small(tiny_omniglot_small, TINY)
    assert [name.partition("/")[0] for name in images.class_names] == [
        "Greek", "Korean", "Tagalog", "Tagalog",
    ]  # fmt: skip
    assert not any("small2/Greek" in file for file in images.files)


def test_omniglot_is_unpacked_from_archives_that_lie_in_the_root(
    tiny_omniglot_small, tmp_path_factory
):
    """The official archives hold one folder each; nothing is downloaded that is there."""
    root = tmp_path_factory.mktemp("root")
    home = tiny_omniglot_small / "omniglot"
    archives = []
    for number in (1, 2):
        name = f"images_background_small{number}"
        shutil.make_archive(str(root / name), "zip", home, name)
        archives.append(Archive(f"https://nowhere.invalid/{name}.zip"))
    images = prepare(
        "omniglot-small",
        root,
        sources={"omniglot-small": tuple(archives)},
        read=lambda home: omniglot_small(home, TINY),
    )
    assert images.fingerprint == omniglot_small(tiny_omniglot_small, TINY).fingerprint
    assert (root / "images_background_small1" / "Greek").is_dir()
