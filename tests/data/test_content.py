"""A data set is known by the content of every image, whatever names, sizes and times say."""

import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from lookalike.data import listed_images, load
from lookalike.data.own_images import from_dataset, from_huggingface

LONG_AGO = 1_700_000_000_000_000_000


@pytest.fixture
def photos(tmp_path, monkeypatch):
    """Bitmaps of one size, of four classes, written long ago, and an empty cache."""
    monkeypatch.setenv("LOOKALIKE_CACHE", str(tmp_path / "cache"))
    random = np.random.default_rng(0)
    for number in range(40):
        path = tmp_path / "photos" / f"class {number % 4}" / f"{number:02}.bmp"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(random.integers(256, size=(8, 8, 3), dtype=np.uint8)).save(path)
        os.utime(path, ns=(LONG_AGO, LONG_AGO))
    return tmp_path / "photos"


@pytest.fixture
def read_files(monkeypatch):
    """The files whose content was read."""
    found, own = [], listed_images._digest_of
    monkeypatch.setattr(
        listed_images, "_digest_of", lambda path: found.append(Path(path)) or own(path)
    )
    return found


def replace(path):
    """Other pixels in a file of the same size and time."""
    size = path.stat().st_size
    other = path.with_suffix(".new")
    Image.fromarray(np.full((8, 8, 3), 7, np.uint8)).save(other, "bmp")
    other.replace(path)
    os.utime(path, ns=(LONG_AGO, LONG_AGO))
    assert path.stat().st_size == size


def test_every_file_counts_although_names_and_sizes_stay(photos):
    before = load("folder", photos)
    for path in sorted(photos.rglob("*.bmp")):
        kept = path.read_bytes()
        replace(path)
        assert load("folder", photos).fingerprint != before.fingerprint
        path.write_bytes(kept)
    assert load("folder", photos).fingerprint == before.fingerprint


def test_the_same_content_elsewhere_is_the_same(photos):
    before = load("folder", photos).fingerprint
    photos.rename(photos.with_name("moved"))
    assert load("folder", photos.with_name("moved")).fingerprint == before


def test_content_is_read_once_and_again_where_a_file_changed(photos, read_files):
    told = []
    load("folder", photos, progress=lambda done, total: told.append((done, total)))
    assert (len(read_files), told[-1]) == (40, (40, 40))
    read_files.clear()
    first = load("folder", photos, progress=lambda *_: pytest.fail("nothing is read"))
    assert read_files == []
    changed = photos / "class 1" / "05.bmp"
    replace(changed)
    second = load("folder", photos)
    assert read_files == [changed]
    assert second.fingerprint != first.fingerprint


def test_rehash_finds_what_was_written_in_place_with_the_time_set_back(photos, read_files):
    first = load("folder", photos)
    path = photos / "class 1" / "05.bmp"
    kept = bytearray(path.read_bytes())
    kept[-1] ^= 1
    with path.open("r+b") as file:
        file.write(kept)
    os.utime(path, ns=(LONG_AGO, LONG_AGO))
    assert load("folder", photos).fingerprint == first.fingerprint
    read_files.clear()
    again = load("folder", photos, rehash=True)
    assert len(read_files) == 40
    assert again.fingerprint != first.fingerprint
    assert load("folder", photos).fingerprint == again.fingerprint


def test_a_file_that_was_just_written_is_read_again(photos, read_files):
    os.utime(photos / "class 1" / "05.bmp")
    load("folder", photos)
    read_files.clear()
    load("folder", photos)
    assert read_files == [photos / "class 1" / "05.bmp"]


def test_a_damaged_cache_is_made_again(photos):
    first = load("folder", photos)
    (kept,) = photos.parent.glob("cache/digests-*.npz")
    kept.write_bytes(b"damaged")
    assert load("folder", photos).fingerprint == first.fingerprint


def test_every_item_of_a_dataset_counts():
    pixels = np.random.default_rng(0).integers(256, size=(100, 4, 4, 3), dtype=np.uint8)
    items = [(image, number % 5) for number, image in enumerate(pixels)]
    before = from_dataset(items, "mine").fingerprint
    for number in range(100):
        other = [*items]
        other[number] = (255 - pixels[number], number % 5)
        assert from_dataset(other, "mine").fingerprint != before


def test_every_row_of_hugging_face_counts():
    datasets = pytest.importorskip("datasets")

    def made(changed):
        pictures = [Image.new("RGB", (4, 4), (n, n == changed, 0)) for n in range(50)]
        features = datasets.Features({"image": datasets.Image(), "label": datasets.Value("int64")})
        columns = {"image": pictures, "label": [n % 4 for n in range(50)]}
        return from_huggingface(datasets.Dataset.from_dict(columns, features)).fingerprint

    assert len({made(changed) for changed in (-1, 1, 2, 3, 47, 48)}) == 6


def test_whoever_waits_for_the_items_of_a_data_set_is_told():
    told = []
    items = [(np.full((4, 4, 3), number, np.uint8), number % 4) for number in range(250)]
    with listed_images.told_progress(lambda done, total: told.append((done, total))):
        from_dataset(items, "mine")
    assert told == [(100, 250), (200, 250), (250, 250)]
