"""The bulk job on real files: every source, broken pictures, resuming, sharing."""

import io
import os
import shutil
import tarfile

import numpy as np
import pyarrow.feather
import pytest
from PIL import Image

from lookalike.data import open_store
from lookalike.data.own_images import folder as image_folder
from lookalike.errors import BadInput
from lookalike.inference import job
from lookalike.inference.embedder import Embedder
from lookalike.inference.job import Options, Share
from lookalike.inference.source import open_source, require_readable
from lookalike.search import Index
from lookalike.search.ingest import embed_into, open_or_create
from tests.search.embedding.conftest import encoded

COUNT = 23
FEW = Options(per_shard=7, batch=4, device="cpu")


def embed(embedder, source, folder, options=FEW, dtype="float32", **how):
    """As the command does; the index, and what became of the pictures."""
    require_readable(source)
    index = open_or_create(str(folder), embedder, embedder.dim, dtype)
    return index, embed_into(index, source, options, **how)


def close(found, expected):
    """Equal but for rounding: batches of another size are summed in another order."""
    np.testing.assert_allclose(found, expected, atol=2e-6)


def test_a_folder(embedder, photos, expected, tmp_path):
    index, added = embed(embedder, open_source(photos), tmp_path / "v")
    assert (len(index), added.new) == (COUNT, COUNT)
    assert [one.path for one in added.skipped] == ["class 1/zz.jpg"]
    found = Index.open(tmp_path / "v")
    assert list(found.labels) == [path.split("/")[0] for path in found.paths]
    close(found.vectors, expected[[int(path[-6:-4]) for path in found.paths]])
    assert Embedder.load(tmp_path / "v" / "model").fingerprint == embedder.fingerprint
    assert [record.size for record in found.records] == [
        (photos / path).stat().st_size for path in found.paths
    ]


def test_its_files_are_plain_arrays_and_columns(embedder, photos, tmp_path):
    """What other programs read, without Lookalike."""
    index, _ = embed(embedder, open_source(photos), tmp_path / "v")
    (home,) = (tmp_path / "v" / "segments").iterdir()
    np.testing.assert_array_equal(np.load(home / "vectors.npy"), index.vectors)
    table = pyarrow.feather.read_table(home / "items.arrow")
    assert table["path"].to_pylist() == list(index.paths)


@pytest.mark.parametrize("name", ["table.csv", "parquet", "parquet/b.parquet", "web", "web/1.tar"])
def test_other_sources(embedder, other_sources, expected, tmp_path, name):
    index, added = embed(embedder, open_source(other_sources / name), tmp_path / "v")
    numbers = range(9 if name in ("parquet/b.parquet", "web/1.tar") else 0, COUNT)
    assert not added.skipped
    assert list(index.labels) == [f"class {n % 3}" for n in numbers]
    assert [known["price"] for known in index.metadata] == [str(10 * n) for n in numbers]
    assert len(set(index.paths)) == len(numbers)
    close(index.vectors, expected[list(numbers)])
    if name == "table.csv":  # a price and a size: one of them is also the name of our own column
        assert index.columns == ["price", "size"]
        assert [known["size"] for known in index.metadata] == [str(n) for n in numbers]


@pytest.mark.parametrize("kind", ["raw", "jpeg"])
def test_a_store_of_training(embedder, photos, expected, tmp_path, kind):
    for path in photos.rglob("*.png"):
        (tmp_path / "p" / path.parent.name).mkdir(parents=True, exist_ok=True)
        (tmp_path / "p" / path.parent.name / path.name).write_bytes(path.read_bytes())
    images = image_folder(tmp_path / "p")
    open_store(images, embedder.preset.resize, tmp_path / "cache", kind=kind)
    (place,) = (tmp_path / "cache").glob("*.store")
    index, _ = embed(embedder, open_source(place), tmp_path / "v")
    numbers = [int(file[-6:-4]) for file in images.files]
    if kind == "raw":
        close(index.vectors, expected[numbers])
    else:  # a JPEG of the resized picture
        assert (index.vectors * expected[numbers]).sum(1).min() > 0.9
    assert list(index.labels) == [str(label) for label in images.labels]


def test_pictures_of_all_kinds(embedder, tmp_path):
    home = tmp_path / "odd"
    home.mkdir()
    random = np.random.default_rng(1)
    whole = Image.fromarray(random.integers(0, 256, (160, 200, 3), np.uint8))
    whole.convert("L").save(home / "grey.png")
    transparent = whole.convert("RGBA")
    transparent.putalpha(120)
    transparent.save(home / "rgba.png")
    turned = whole.getexif()
    turned[0x0112] = 6
    whole.save(home / "rotated.jpg", exif=turned)
    whole.convert("P").save(home / "palette.gif")
    whole.save(home / "cut.jpg")
    (home / "cut.jpg").write_bytes((home / "cut.jpg").read_bytes()[:900])
    index, added = embed(embedder, open_source(home), tmp_path / "v")
    assert [one.path for one in added.skipped] == ["cut.jpg"]
    close(index.vectors, embedder.embed([home / path for path in index.paths]))


def test_float16_and_half_precision(embedder, photos, tmp_path):
    source = open_source(photos)
    whole, _ = embed(embedder, source, tmp_path / "32")
    half = Options("cpu", "bf16-mixed", batch=4, per_shard=7)
    small, _ = embed(embedder, source, tmp_path / "16", half, "float16")
    assert small.dtype == "float16"
    np.testing.assert_allclose(small.vectors, whole.vectors, atol=2**-5)


def test_what_is_there_is_not_embedded_again(embedder, photos, tmp_path):
    shutil.copytree(photos, tmp_path / "p")
    index, first = embed(embedder, open_source(tmp_path / "p"), tmp_path / "v")
    before = dict(zip(index.paths, index.vectors, strict=True))
    assert (first.new, first.unchanged) == (COUNT, 0)
    os.utime(tmp_path / "p" / "class 0" / "00.png", (1, 1))
    index.remove(index.select(["class 1/01.png"]))
    again, second = embed(embedder, open_source(tmp_path / "p"), tmp_path / "v")
    assert (second.new, second.changed, second.unchanged) == (1, 1, COUNT - 2)
    assert second.skipped == first.skipped
    assert len(again) == COUNT
    for path, vector in zip(again.paths, again.vectors, strict=True):
        np.testing.assert_allclose(vector, before[path], atol=2e-6)


def test_a_folder_holds_vectors_of_one_model_and_type(embedder, photos, tmp_path):
    folder = tmp_path / "v"
    embed(embedder, open_source(photos), folder)
    with pytest.raises(BadInput, match="stores float32, not float16"):
        embed(embedder, open_source(photos), folder, dtype="float16")
    with pytest.raises(BadInput, match="another model"):
        embed(Embedder.from_network("small-cnn", weights="none"), open_source(photos), folder)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes.txt").touch()
    with pytest.raises(BadInput, match="exists already"):
        embed(embedder, open_source(photos), tmp_path / "full")


def test_a_folder_with_a_link_inside_is_not_written_to(embedder, photos, tmp_path):
    index = open_or_create(str(tmp_path / "v"), embedder, embedder.dim)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "v" / "model" / "x").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(BadInput, match="model/x' is a symbolic link"):
        embed_into(index, open_source(photos), FEW)


def test_texts_that_no_index_can_store(embedder, tmp_path):
    """Such pictures are named and skipped, and do not stop the job."""
    about = {
        "fine": b'{"label": "x"}',
        "half": rb'{"label": "a\ud800"}',
        "nul": rb'{"label": "x", "note": "a\u0000"}',
        "caf\udce9": b'{"label": "x"}',
    }
    with tarfile.open(tmp_path / "web.tar", "w") as archive:
        for name, text in about.items():
            for file, data in ((f"{name}.png", encoded(1)), (f"{name}.json", text)):
                entry = tarfile.TarInfo(file)
                entry.size = len(data)
                archive.addfile(entry, io.BytesIO(data))
    index, done = embed(embedder, open_source(tmp_path / "web.tar"), tmp_path / "v")
    assert list(index.paths) == ["web.tar/fine.png"]
    assert {one.path: one.reason for one in done.skipped} == {
        "web.tar/half.png": "its label or metadata is not text",
        "web.tar/nul.png": "its label or metadata is not text",
        "web.tar/caf?.png": "its name is not UTF-8",
    }


def test_machines_share_an_index(embedder, photos, tmp_path):
    alone, _ = embed(embedder, open_source(photos), tmp_path / "alone")
    _, half = embed(embedder, open_source(photos), tmp_path / "v", share=Share(2, 2))
    assert (half.new, half.unchanged) == (10, 0)
    both, rest = embed(embedder, open_source(photos), tmp_path / "v", share=Share(1, 2))
    assert (rest.new, rest.unchanged) == (COUNT - 10, 0)
    assert by_path(both) == by_path(alone)


def by_path(index):
    """The bytes of each vector: equal to the last bit."""
    return {path: vector.tobytes() for path, vector in zip(index.paths, index.vectors, strict=True)}


@pytest.mark.parametrize("text", ["0/2", "3/2", "1", "a/b", "-1/2"])
def test_shares_that_are_none(text):
    with pytest.raises(BadInput, match="--shard"):
        Share.parse(text)


def test_no_picture(embedder, tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(BadInput, match="there is no picture in"):
        open_source(tmp_path / "empty")
    (tmp_path / "empty" / "a.png").write_bytes(b"no")
    with pytest.raises(BadInput, match="none of the 1 pictures"):
        embed(embedder, open_source(tmp_path / "empty"), tmp_path / "v")
    assert not (tmp_path / "v").exists()
    with pytest.raises(BadInput, match="there is no folder or file"):
        open_source(tmp_path / "nothing")


def test_devices(embedder):
    from lookalike.inference.job import Device

    with pytest.raises(BadInput, match="--device tpu cannot be used"):
        Device(embedder, "tpu")
    with pytest.raises(BadInput, match="16-mixed needs a GPU"):
        Device(embedder, "cpu", "16-mixed")


def test_little_is_read_ahead(embedder, photos):
    """A slow network does not let decoded pictures pile up."""
    source = open_source(photos)
    read = []

    def reading(row):
        read.append(row)
        return source.read(row % 5)

    windows = (range(start, start + 4) for start in range(0, 10_000, 4))
    device = job.Device(embedder, "cpu")
    made = job.embed_windows(device, reading, windows, threads=2)
    for _ in range(3):
        next(made)
    made.close()
    assert len(read) < 250
