"""The bulk job on real files: every source, broken pictures, resuming, sharing."""

import io
import json
import os
import tarfile
from pathlib import Path

import numpy as np
import pyarrow.parquet
import pytest
from PIL import Image

from lookalike.data import open_store
from lookalike.data.own_images import folder as image_folder
from lookalike.errors import BadInput
from lookalike.inference.bulk import pipeline
from lookalike.inference.bulk.job import Options, Share, embed
from lookalike.inference.bulk.manifest import MANIFEST, Manifest
from lookalike.inference.bulk.shards import read_description, read_shard, vectors_in
from lookalike.inference.bulk.source import open_source
from lookalike.inference.embedder import Embedder
from tests.inference.bulk.conftest import encoded

COUNT = 23
FEW = Options(per_shard=7, batch=4, device="cpu")


def table_of(folder):
    """All shards as one table, and their vectors."""
    manifest = Manifest.read(folder)
    assert manifest.complete
    table = pyarrow.concat_tables(read_shard(folder, file) for file in manifest.files)
    return table, vectors_in(table["vector"])


def close(found, expected):
    """Equal but for rounding: batches of another size are summed in another order."""
    np.testing.assert_allclose(found, expected, atol=2e-6)


def test_a_folder(embedder, photos, expected, tmp_path):
    found = embed(embedder, open_source(photos), tmp_path / "v", FEW)
    assert (found.rows, len(found.files), found.made, found.complete) == (COUNT, 4, 4, True)
    assert [one.path for one in found.skipped] == ["class 1/zz.jpg"]
    table, vectors = table_of(tmp_path / "v")
    assert table["label"].to_pylist() == [path.split("/")[0] for path in table["path"].to_pylist()]
    numbers = [int(path[-6:-4]) for path in table["path"].to_pylist()]
    assert vectors.dtype == np.float32
    close(vectors, expected[numbers])
    assert Embedder.load(tmp_path / "v" / "model").fingerprint == found.manifest.model
    sizes = [(photos / path).stat().st_size for path in table["path"].to_pylist()]
    assert table["size"].to_pylist() == sizes


@pytest.mark.parametrize("name", ["table.csv", "parquet", "parquet/b.parquet", "web", "web/1.tar"])
def test_other_sources(embedder, other_sources, expected, tmp_path, name):
    source = open_source(other_sources / name)
    found = embed(embedder, source, tmp_path / "v", FEW)
    numbers = range(9 if name in ("parquet/b.parquet", "web/1.tar") else 0, COUNT)
    table, vectors = table_of(tmp_path / "v")
    assert not found.skipped
    assert table["label"].to_pylist() == [f"class {n % 3}" for n in numbers]
    assert table["price"].to_pylist() == [str(10 * n) for n in numbers]
    assert len(set(table["path"].to_pylist())) == len(numbers)
    close(vectors, expected[list(numbers)])
    if name == "table.csv":  # a price and a size: one of them is also the name of our own column
        assert found.manifest.columns == ("price", "size")
        assert table["metadata:size"].to_pylist() == [str(n) for n in numbers]


@pytest.mark.parametrize("kind", ["raw", "jpeg"])
def test_a_store_of_training(embedder, photos, expected, tmp_path, kind):
    for path in photos.rglob("*.png"):
        (tmp_path / "p" / path.parent.name).mkdir(parents=True, exist_ok=True)
        (tmp_path / "p" / path.parent.name / path.name).write_bytes(path.read_bytes())
    images = image_folder(tmp_path / "p")
    open_store(images, embedder.preset.resize, tmp_path / "cache", kind=kind)
    (place,) = (tmp_path / "cache").glob("*.store")
    embed(embedder, open_source(place), tmp_path / "v", FEW)
    table, vectors = table_of(tmp_path / "v")
    numbers = [int(file[-6:-4]) for file in images.files]
    if kind == "raw":
        close(vectors, expected[numbers])
    else:  # a JPEG of the resized picture
        assert (vectors * expected[numbers]).sum(1).min() > 0.9
    assert table["label"].to_pylist() == [str(label) for label in images.labels]


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
    found = embed(embedder, open_source(home), tmp_path / "v", FEW)
    assert [one.path for one in found.skipped] == ["cut.jpg"]
    table, vectors = table_of(tmp_path / "v")
    close(vectors, embedder.embed([home / path for path in table["path"].to_pylist()]))


def test_float16_and_half_precision(embedder, photos, tmp_path):
    source = open_source(photos)
    embed(embedder, source, tmp_path / "32", FEW)
    small = Options("float16", "cpu", "bf16-mixed", batch=4, per_shard=7)
    embed(embedder, source, tmp_path / "16", small)
    vectors = table_of(tmp_path / "16")[1]
    assert vectors.dtype == np.float16
    np.testing.assert_allclose(vectors, table_of(tmp_path / "32")[1], atol=2**-5)


def test_finished_shards_are_not_made_again(embedder, photos, tmp_path, monkeypatch):
    source, folder = open_source(photos), tmp_path / "v"
    first = embed(embedder, source, folder, FEW)
    before = table_of(folder)[1]
    again = embed(embedder, open_source(photos), folder, FEW)
    assert (first.made, again.made, again.skipped) == (4, 0, first.skipped)
    # one is gone, one is cut, one has a wrong number in it: these three are made again
    (folder / "shard-00000.parquet").unlink()
    cut = folder / "shard-00001.parquet"
    cut.write_bytes(cut.read_bytes()[:-100])
    spoiled = folder / "shard-00002.parquet"
    data = bytearray(spoiled.read_bytes())
    place = data.find(np.float32(before[15, 3]).tobytes())
    assert place > 0
    data[place] ^= 1
    spoiled.write_bytes(bytes(data))
    with pytest.raises(BadInput, match=r"damaged|cannot read"):
        table_of(folder)
    assert embed(embedder, open_source(photos), folder, FEW).made == 3
    assert np.array_equal(table_of(folder)[1], before)


def test_any_flipped_bit_of_a_shard_is_noticed_and_mended(embedder, photos, tmp_path):
    """Also in what Parquet has no checksum of: the headers of pages, the description at the end."""
    folder = tmp_path / "v"
    embed(embedder, open_source(photos), folder, FEW)
    path = folder / "shard-00001.parquet"
    whole = path.read_bytes()
    for place in range(0, len(whole), 97):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :])
        with pytest.raises(BadInput, match=r"shard-00001\.parquet' is damaged"):
            table_of(folder)
    assert embed(embedder, open_source(photos), folder, FEW).made == 1
    assert path.read_bytes() == whole


def test_descriptions_nested_too_deep(embedder, photos, tmp_path):
    folder = tmp_path / "v"
    embed(embedder, open_source(photos), folder, FEW)
    path = folder / "shard-00001.parquet"
    deep = pyarrow.parquet.read_table(path).replace_schema_metadata({b"lookalike": b"[" * 100_000})
    pyarrow.parquet.write_table(deep, path)
    assert read_description(path) == {}
    (folder / MANIFEST).write_text("[" * 100_000)
    with pytest.raises(BadInput, match=r"embedding\.json' is damaged"):
        Manifest.read(folder)


def test_a_folder_holds_one_work(embedder, photos, tmp_path):
    import shutil

    shutil.copytree(photos, tmp_path / "p")
    folder = tmp_path / "v"
    embed(embedder, open_source(tmp_path / "p"), folder, FEW)

    def refuse(match, model=embedder, **changes):
        options = Options(**{"per_shard": 7, "batch": 4, "device": "cpu", **changes})
        with pytest.raises(BadInput, match=match):
            embed(model, open_source(tmp_path / "p"), folder, options)

    refuse("another --per-shard", per_shard=8)
    refuse("another --batch", batch=5)
    refuse("another --dtype", dtype="float16")
    refuse("another --precision", precision="bf16-mixed")
    refuse("another model", model=Embedder.from_network("small-cnn", weights="none"))
    os.utime(tmp_path / "p" / "class 0" / "00.png", (1, 1))
    refuse("other pictures")
    (tmp_path / "p" / "class 0" / "00.png").unlink()
    refuse("another number of pictures")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes.txt").touch()
    with pytest.raises(BadInput, match="exists already"):
        embed(embedder, open_source(photos), tmp_path / "full", FEW)


def test_a_folder_with_a_link_inside_is_not_written_to(embedder, photos, tmp_path):
    embed(embedder, open_source(photos), tmp_path / "v", FEW)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "v" / "model" / "x").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(BadInput, match="model/x' is a symbolic link"):
        embed(embedder, open_source(photos), tmp_path / "v", FEW)


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
    done = embed(embedder, open_source(tmp_path / "web.tar"), tmp_path / "v", FEW)
    assert table_of(tmp_path / "v")[0]["path"].to_pylist() == ["web.tar/fine.png"]
    assert {one.path: one.reason for one in done.skipped} == {
        "web.tar/half.png": "its label or metadata is not text",
        "web.tar/nul.png": "its label or metadata is not text",
        "web.tar/caf?.png": "its name is not UTF-8",
    }


def test_a_machine_begins_the_folder_while_another_looks(embedder, photos, tmp_path, monkeypatch):
    source, folder = open_source(photos), tmp_path / "v"
    exists, mkdir = Path.exists, Path.mkdir

    def late(path, **options):  # between the look for embedding.json and that for other files
        monkeypatch.setattr(Path, "mkdir", mkdir)
        mkdir(path, **options)
        if path == folder:
            embed(embedder, source, folder, FEW, share=Share(1, 2))

    assert not exists(folder)
    monkeypatch.setattr(Path, "mkdir", late)
    assert embed(embedder, source, folder, FEW, share=Share(2, 2)).complete


def test_machines_share_a_folder(embedder, photos, tmp_path):
    folder = tmp_path / "v"
    embed(embedder, open_source(photos), tmp_path / "alone", FEW)
    half = embed(embedder, open_source(photos), folder, FEW, share=Share(2, 2))
    assert (half.made, half.complete) == (2, False)
    assert not json.loads((folder / "embedding.json").read_text())["complete"]
    rest = embed(embedder, open_source(photos), folder, FEW, share=Share(1, 2))
    assert (rest.made, rest.complete) == (2, True)
    assert np.array_equal(table_of(folder)[1], table_of(tmp_path / "alone")[1])


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
        embed(embedder, open_source(tmp_path / "empty"), tmp_path / "v", FEW)
    assert not (tmp_path / "v").exists()
    with pytest.raises(BadInput, match="there is no folder or file"):
        open_source(tmp_path / "nothing")


def test_devices(embedder):
    from lookalike.inference.bulk.device import Device

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

    windows = pipeline.windows_of(range(10_000), 4)
    device = pipeline.Device(embedder, "cpu")
    made = pipeline.embed_windows(device, reading, windows, threads=2)
    for _ in range(3):
        next(made)
    made.close()
    assert len(read) < 250
