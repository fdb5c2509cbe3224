"""Stores of images, raw and as JPEGs: what is read and kept, and building that is interrupted."""

import io
import os
import pickle
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import simplejpeg
import torch
from PIL import Image

from lookalike.data import ImageStore, UnreadableImage, chosen_store, load, open_store
from lookalike.data import store as module
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


def test_of_two_builds_at_once_one_waits(tmp_path, save_image):
    pictures, cache = tmp_path / "pictures", tmp_path / "cache"
    for i in range(40):
        save_image(pictures / f"{i // 4:02d}" / f"{i}.png", seed=i)
    both = [start_build(pictures, cache, 0.02) for _ in range(2)]
    said = [process.communicate()[0] for process in both]
    assert [process.returncode for process in both] == [0, 0]
    waited, built = sorted(said, key=len)  # one builds, the other waits and finds it
    assert built == f"begun\n{waited}"
    assert waited.startswith("40 ")
    (folder,) = cache.glob("*.store")
    assert [path.name for path in folder.iterdir()] == ["shard-00000-of-00001"]


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


def smooth(height, width, seed, grey=False):
    """A picture without noise, as photographs are, so that JPEG is close to it."""
    coarse = np.random.default_rng(seed).integers(0, 256, (4, 4, 3), dtype=np.uint8)
    picture = Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC)
    return picture.convert("L") if grey else picture


@pytest.fixture
def few_images(monkeypatch):
    """Shards of few images, so that a small set has several."""
    monkeypatch.setattr(module, "FEWEST_IMAGES", 2)


@pytest.fixture
def mixed(tmp_path):
    """Files of many kinds; a folder for them and a cache."""
    home = tmp_path / "pictures" / "a"
    home.mkdir(parents=True)
    smooth(64, 80, 0).save(home / "0-exact.jpg", quality=90)
    smooth(30, 40, 1).save(home / "1-small.jpg", quality=90)
    smooth(100, 200, 2).save(home / "2-large.jpg", quality=90)
    smooth(64, 80, 3).save(home / "3-not-jpeg.png")
    exif = Image.Exif()
    exif[0x0112] = 3  # upside down, which the shape does not show
    smooth(64, 80, 4).save(home / "4-turned.jpg", quality=90, exif=exif)
    smooth(64, 80, 5, grey=True).save(home / "5-grey.jpg", quality=90)
    smooth(64, 80, 6).convert("CMYK").save(home / "6-cmyk.jpg", quality=90)
    return tmp_path


def test_reads_nearly_what_raw_pixels_are_and_keeps_small_originals(mixed, few_images):
    images = load("folder", mixed / "pictures")
    raw, store = (open_store(images, 64, mixed, kind=kind) for kind in ("raw", "jpeg"))
    assert len(store) == len(raw) == 7
    assert len(store.paths) > 1
    assert np.array_equal(store.shapes, raw.shapes)
    assert np.array_equal(store.labels, images.labels)
    kept = []
    for index, file in enumerate(images.files):
        original = (mixed / "pictures" / file).read_bytes()
        difference = (store.read(index).int() - raw.read(index).int()).abs()
        if store.data(index).tobytes() == original:
            kept.append(index)
            assert difference.max() == 0
        else:
            assert difference.float().mean() < 3
    assert kept == [0, 5]


def test_originals_with_many_bytes_are_written_again(tmp_path, few_images):
    home = tmp_path / "pictures" / "a"
    home.mkdir(parents=True)
    smooth(64, 80, 0).save(home / "0.jpg", quality=90, comment=b"x" * 40_000)
    store = open_store(load("folder", tmp_path / "pictures"), 64, tmp_path, kind="jpeg")
    assert len(store.data(0)) < 10_000


def test_the_data_are_jpegs_that_others_read(mixed):
    images = load("folder", mixed / "pictures")
    store = open_store(images, 64, mixed, kind="jpeg", quality=80)
    for index in range(len(images)):
        with Image.open(io.BytesIO(store.data(index))) as picture:
            assert picture.format == "JPEG"
            expected = np.asarray(picture.convert("RGB"))
        assert np.array_equal(store.read(index).permute(1, 2, 0).numpy(), expected)
    assert store.settings == {"store": "jpeg", "jpeg_quality": "80"}


def test_quality_and_size_have_their_own_stores(mixed):
    images = load("folder", mixed / "pictures")
    stores = [
        open_store(images, size, mixed, kind="jpeg", quality=quality)
        for size, quality in ((64, 95), (64, 50), (32, 95))
    ]
    assert len({store.paths[0] for store in stores}) == 3
    assert len(stores[1].data(2)) < len(stores[0].data(2))


def test_grey_images_stay_grey_and_batches_are_lists(tmp_path, image_set):
    pixels = [np.asarray(smooth(20, 30, seed, grey=True))[:, :, None] for seed in range(3)]
    store = open_store(image_set(pixels, [0, 0, 1]), None, tmp_path, kind="jpeg")
    batch = store.read_batch(torch.tensor([2, 0]))
    assert [tuple(image.shape) for image in batch] == [(1, 20, 30)] * 2
    assert np.abs(batch[0][0].int().numpy() - pixels[2][:, :, 0]).mean() < 3


def test_images_that_were_left_out_keep_their_originals(mixed):
    images = load("folder", mixed / "pictures").without([0])
    store = open_store(images, 64, mixed, kind="jpeg")
    assert store.data(4).tobytes() == (mixed / "pictures" / "a" / "5-grey.jpg").read_bytes()


def test_a_damaged_shard_is_built_again_and_the_others_are_not(mixed, few_images):
    images = load("folder", mixed / "pictures")
    store = open_store(images, 64, mixed, kind="jpeg")
    times = [path.stat().st_mtime_ns for path in store.paths]
    before = store.read(3)
    store.paths[1].write_bytes(store.paths[1].read_bytes()[:-9])
    again = open_store(images, 64, mixed, kind="jpeg")
    assert torch.equal(again.read(3), before)
    changed = [path.stat().st_mtime_ns != old for path, old in zip(store.paths, times, strict=True)]
    assert changed == [False, True, False]


def test_unreadable_images_are_all_named_and_the_other_shards_stay(tmp_path, image_set, few_images):
    pixels = [np.zeros((8, 8, 3), np.uint8)] * 8

    def decode(index):
        if index in (1, 6):
            raise UnreadableImage(f"{index}.png", "cut")
        return pixels[index]

    images = image_set(pixels, [0, 0, 1, 1, 1, 1, 1, 1], decode=decode)
    with pytest.raises(BadInput, match=r"2 images of 'memory'.*1\.png \(cut\), 6\.png \(cut\);"):
        open_store(images, None, tmp_path, kind="jpeg")
    (folder,) = tmp_path.glob("*.store")
    assert sorted(path.name for path in folder.iterdir()) == [
        "shard-00001-of-00004",
        "shard-00002-of-00004",
    ]


@pytest.mark.parametrize("kind", ["jpeg", "auto"])
def test_an_image_too_long_for_a_jpeg_is_named(tmp_path, image_set, monkeypatch, kind):
    monkeypatch.setattr(module, "LARGEST_RAW", 0)
    pixels = [np.zeros((8, 8, 3), np.uint8), np.zeros((1, 65_501, 3), np.uint8)]
    with pytest.raises(BadInput, match="no JPEG can hold it: Maximum supported image dimension"):
        open_store(image_set(pixels, [0, 1]), None, tmp_path, kind=kind)


def test_auto_goes_by_the_size_of_the_data(mixed, monkeypatch):
    images, said = load("folder", mixed / "pictures"), []
    assert chosen_store(images, 64, "jpeg") == "jpeg"
    assert chosen_store(images, 64, "auto", note=said.append) == "raw"
    raw, jpeg = module.estimated_sizes(images, 64, 95)
    assert raw == open_store(images, 64, mixed).shapes.prod(1).sum()
    written = open_store(images, 64, mixed, kind="jpeg")
    assert jpeg == sum(len(written.data(index)) for index in range(len(images)))
    monkeypatch.setattr(module, "LARGEST_RAW", raw - 1)
    assert chosen_store(images, 64, "auto", note=said.append) == "jpeg"
    assert [text.rpartition("; ")[2] for text in said] == ["raw is taken", "jpeg is taken"]
    assert f"raw pixels take {raw / 1e6:.3g} MB" in said[0]


RESUMED = """
import resource, sys, time
from pathlib import Path
from lookalike.data import load, open_store, store
from lookalike.errors import LookalikeError
store.FEWEST_IMAGES = 4
pictures, cache, pause, most = sys.argv[1], Path(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4])
if most:
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
def slow(done, total):
    print(done, flush=True)
    time.sleep(pause)
try:
    store = open_store(load("folder", pictures), 32, cache, slow, kind="jpeg")
except LookalikeError as error:
    sys.exit(f"refused: {error}")
"""


def start(home, pause, most=0):
    command = [sys.executable, "-c", RESUMED, home / "pictures", home / "cache", pause, most]
    return subprocess.Popen(
        list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


@pytest.fixture
def forty(tmp_path):
    """Forty pictures, the later the larger when they are stored; the shards hold four each."""
    for number in range(40):
        path = tmp_path / "pictures" / f"{number // 4:02d}" / f"{number:02d}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        noise = np.random.default_rng(number).integers(0, 1 + 6 * number, (32, 32, 3))
        Image.fromarray(noise.astype(np.uint8)).save(path)
    return tmp_path


def shard_files(home):
    return sorted((home / "cache").glob("*.store/shard-*"))


def test_a_killed_build_resumes_where_it_was(forty):
    killed = start(forty, 0.1)
    assert killed.stdout is not None
    for line in killed.stdout:
        if int(line) >= 14:
            break
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    written = {path: path.stat().st_mtime_ns for path in shard_files(forty)}
    with pytest.raises(FileNotFoundError, match="not complete"):
        ImageStore(shard_files(forty)[0].parent)
    assert 3 <= len(written) < 10
    resumed = start(forty, 0)
    said, errors = resumed.communicate()
    assert resumed.returncode == 0, errors
    assert int(said.split()[0]) == 4 * len(written) + 1  # it counts from what is there
    assert len(shard_files(forty)) == 10
    assert {path: path.stat().st_mtime_ns for path in written} == written
    images = load("folder", forty / "pictures")
    store = ImageStore(shard_files(forty)[0].parent)
    assert np.array_equal(store.labels, images.labels)
    whole = open_store(images, 32, forty / "other", kind="jpeg")
    assert all(np.array_equal(store.data(index), whole.data(index)) for index in range(40))


def test_a_full_disk_gets_a_sentence_and_the_build_goes_on(forty):
    full = start(forty, 0, most=6_000)
    _, errors = full.communicate()
    assert full.returncode == 1
    (line,) = errors.strip().splitlines()
    assert line.startswith("refused: cannot write the image cache")
    assert "File too large" in line
    assert "what is stored is kept, and the same command resumes" in line
    kept = len(shard_files(forty))
    assert 0 < kept < 10
    resumed = start(forty, 0)
    said, errors = resumed.communicate()
    assert resumed.returncode == 0, errors
    assert len(said.split()) == 40 - 4 * kept
    assert len(shard_files(forty)) == 10


def test_a_store_with_a_link_inside_is_not_written_to(mixed, few_images):
    images = load("folder", mixed / "pictures")
    folder = open_store(images, 64, mixed, kind="jpeg").folder
    shard = sorted(folder.iterdir())[0]
    shard.unlink()
    shard.symlink_to("/nowhere")
    with pytest.raises(BadInput, match="is a symbolic link"):
        open_store(images, 64, mixed, kind="jpeg")
