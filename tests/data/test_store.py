import os
import pickle
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import simplejpeg
import torch

from lookalike.data import ImageStore, UnreadableImage, load, open_store
from lookalike.data.store import INDEX, checksum_of, trailer
from lookalike.errors import BadInput, LookalikeError
from lookalike.inference.source import open_source


@pytest.fixture
def ragged(image_set):
    """Images of different sizes, grey ones among them."""
    random = np.random.default_rng(0)
    shapes = [(5, 7, 3), (9, 4, 3), (6, 6, 1), (1, 1, 3), (30, 40, 3)]
    pixels = [random.integers(0, 256, shape, dtype=np.uint8) for shape in shapes]
    return pixels, image_set(pixels, [0, 0, 1, 1, 1])


def test_gives_back_what_was_decoded(tmp_path, ragged):
    pixels, images = ragged
    store = open_store(images, None, tmp_path)
    assert len(store) == 5
    for index, expected in enumerate(pixels):
        read = store.read(index)
        assert read.dtype == torch.uint8
        assert np.array_equal(read.permute(1, 2, 0).numpy(), expected)
    batch = store.read_batch(torch.tensor([4, 0]))
    assert [tuple(image.shape) for image in batch] == [(3, 30, 40), (3, 5, 7)]


def test_changing_what_was_read_changes_no_file(tmp_path, ragged):
    pixels, images = ragged
    open_store(images, None, tmp_path).read(0).zero_()
    store = open_store(images, None, tmp_path)
    assert np.array_equal(store.read(0).permute(1, 2, 0).numpy(), pixels[0])


@pytest.mark.parametrize("index", [-1, 5])
def test_numbers_outside_are_refused(tmp_path, ragged, index):
    with pytest.raises(IndexError):
        open_store(ragged[1], None, tmp_path).read(index)


def test_decodes_once(tmp_path, ragged, image_set):
    pixels, _ = ragged
    calls = []

    def decode(index):
        calls.append(index)
        return pixels[index]

    images = image_set(pixels, [0, 0, 1, 1, 1], decode=decode)
    seen = []
    first = open_store(images, 4, tmp_path, lambda done, total: seen.append((done, total)))
    assert seen == [(i, 5) for i in range(1, 6)]
    before = len(calls)
    again = open_store(images, 4, tmp_path)
    assert len(calls) == before
    assert again.folder == first.folder
    assert open_store(images, 3, tmp_path).folder != first.folder


def test_another_size_has_another_store(tmp_path, ragged):
    sizes = [None, 16, (16, 16), (16, 24), (24, 16)]
    stores = [open_store(ragged[1], size, tmp_path) for size in sizes]
    assert len({store.folder for store in stores}) == len(sizes)
    assert [store.read(4).shape for store in stores] == [
        (3, 30, 40), (3, 16, 21), (3, 16, 16), (3, 16, 24), (3, 24, 16)
    ]  # fmt: skip


def test_changed_images_get_another_store(tmp_path, save_image):
    save_image(tmp_path / "in" / "a" / "1.png", seed=1)
    old = open_store(load("folder", tmp_path / "in"), None, tmp_path)
    pixels = save_image(tmp_path / "in" / "a" / "1.png", seed=2)
    os.utime(tmp_path / "in" / "a" / "1.png", ns=(1, 1))
    new = open_store(load("folder", tmp_path / "in"), None, tmp_path)
    assert new.folder != old.folder
    assert np.array_equal(new.read(0).permute(1, 2, 0).numpy(), pixels)


@pytest.mark.parametrize("damage", ["cut", "empty", "tail", "shapes"])
def test_a_damaged_store_is_built_again(tmp_path, ragged, damage):
    pixels, images = ragged
    (path,) = open_store(images, None, tmp_path).paths
    data = path.read_bytes()
    path.write_bytes(
        {
            "cut": data[: len(data) // 2],
            "empty": b"",
            "tail": data[:-1] + b"\xff",
            "shapes": data[100:],
        }[damage]
    )
    store = open_store(images, None, tmp_path)
    assert np.array_equal(store.read(4).permute(1, 2, 0).numpy(), pixels[4])


def test_one_flipped_bit_of_an_image_is_a_sentence(tmp_path, ragged):
    pixels, images = ragged
    (path,) = open_store(images, None, tmp_path).paths
    data = bytearray(path.read_bytes())
    data[pixels[0].size + 5] ^= 4
    path.write_bytes(data)
    store = open_store(images, None, tmp_path)
    assert np.array_equal(store.read(0).permute(1, 2, 0).numpy(), pixels[0])
    for _ in range(2):
        with pytest.raises(LookalikeError, match=r"of-00001' is damaged \(image 1\); remove it"):
            store.read(1)


def test_unreadable_images_stop_the_build_with_their_names(tmp_path, ragged, image_set):
    pixels, _ = ragged

    def decode(index):
        if index in (1, 3):
            raise UnreadableImage(f"{index}.png", "cut")
        return pixels[index]

    images = image_set(pixels, [0, 0, 1, 1, 1], decode=decode)
    with pytest.raises(BadInput, match=r"2 images of 'memory'.*1\.png \(cut\), 3\.png \(cut\);"):
        open_store(images, None, tmp_path)
    assert {path.suffix for path in tmp_path.rglob("*")} == {".lock", ".store"}


@pytest.mark.parametrize("kind", ["raw", "jpeg"])
def test_too_little_disk_is_said_before_the_first_byte(ragged, kind):
    if not Path("/proc/version").exists():
        pytest.skip("needs /proc, a file system without space")
    with pytest.raises(BadInput, match=rf"'memory' \(data.store={kind}\) takes .* 0 MB are free"):
        open_store(ragged[1], None, Path("/proc"), kind=kind)


def test_travels_between_processes(tmp_path, ragged):
    store = open_store(ragged[1], None, tmp_path)
    copy = pickle.loads(pickle.dumps(store))
    assert torch.equal(copy.read(4), store.read(4))


def test_an_empty_data_set_has_an_empty_store(tmp_path, image_set):
    images = image_set([np.zeros((1, 1, 3), np.uint8)], [0]).without([0])
    assert len(open_store(images, None, tmp_path)) == 0


BUILD = """
import sys, time
from pathlib import Path
from lookalike.data import load, open_store
def slow(done, total):
    if done == 1: print("begun", flush=True)
    time.sleep(float(sys.argv[3]))
store = open_store(load("folder", sys.argv[1]), 16, Path(sys.argv[2]), slow)
print(len(store), int(store.read(39).sum()))
"""


def start_build(pictures: Path, cache: Path, pause: float) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", BUILD, str(pictures), str(cache), str(pause)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_killed_builds_are_never_used_and_two_at_once_agree(tmp_path, save_image):
    pictures, cache = tmp_path / "pictures", tmp_path / "cache"
    for i in range(40):
        save_image(pictures / f"{i // 4:02d}" / f"{i}.png", seed=i)
    killed = start_build(pictures, cache, 0.2)
    assert killed.stdout is not None
    assert killed.stdout.readline() == "begun\n"
    time.sleep(0.3)
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    (folder,) = cache.glob("*.store")
    (left,) = folder.iterdir()
    assert left.name.startswith(".shard-00000-of-00001.")
    with pytest.raises(FileNotFoundError, match="not complete"):
        ImageStore(folder)

    both = [start_build(pictures, cache, 0.02) for _ in range(2)]
    said = [process.communicate()[0] for process in both]
    assert [process.returncode for process in both] == [0, 0]
    waited, built = sorted(said, key=len)  # one builds, the other waits and finds it
    assert built == f"begun\n{waited}"
    assert waited.startswith("40 ")
    assert [path.name for path in folder.iterdir() if path != left] == ["shard-00000-of-00001"]


def forged_store(folder, data, **fields):
    """A store of one image, with right checksums."""
    row = np.zeros(1, INDEX)
    row["end"] = len(data)
    for name, value in fields.items():
        row[name] = value
    row["checksum"] = checksum_of(row[0], data)
    folder.mkdir(parents=True)
    (folder / "shard-00000-of-00001").write_bytes(data + row.tobytes() + trailer(1))
    return folder


@pytest.mark.parametrize("shape", [(5, 5, 3), (-1, 2, 3), (2**31 - 1, 2**31 - 1, 2**31 - 1)])
def test_pixels_of_another_number_than_their_shape_says_are_refused(tmp_path, shape):
    place = forged_store(tmp_path / "theirs.store", bytes(12), shape=shape)
    with pytest.raises(BadInput, match=r"cannot read the store .* do not agree"):
        open_source(place)


@pytest.mark.parametrize(
    ("data", "shape"),
    [
        (b"no jpeg", (2, 2, 3)),
        (b"", (2, 2, 3)),
        (simplejpeg.encode_jpeg(np.zeros((40, 30, 1), np.uint8), 50, "GRAY", "Gray"), (2, 2, 1)),
        (
            simplejpeg.encode_jpeg(np.zeros((2_000, 60_001, 1), np.uint8), 1, "GRAY", "Gray"),
            (2_000, 60_001, 1),
        ),
    ],
    ids=["other", "empty", "larger than it says", "too many pixels"],
)
def test_a_jpeg_is_decoded_only_if_it_has_the_size_that_its_row_says(tmp_path, data, shape):
    """A store may come from anyone: a few megabytes may have thousands of millions of pixels."""
    place = forged_store(tmp_path / "theirs.store", data, shape=shape, quality=95)
    with pytest.raises(LookalikeError, match=r"damaged \(image 0\)"):
        open_source(place).read(0)
