"""Images from a torch Dataset, Hugging Face data sets, WebDataset shards and Parquet files."""

import gzip
import io
import json
import os
import pickle
import sys
import tarfile

import datasets
import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
import torch
from PIL import Image
from torch.utils.data import TensorDataset
from torchvision.datasets import ImageFolder

from lookalike.data import UnreadableImage, load, make_splits, open_store
from lookalike.errors import BadInput
from lookalike.registry import trust

COUNT = 12
LABELS = [number // 3 for number in range(COUNT)]


def picture(number, kind="PNG"):
    """The bytes and the pixels of a small picture."""
    pixels = np.random.default_rng(number).integers(0, 256, (10, 12, 3), dtype=np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, kind)
    return file.getvalue(), np.asarray(Image.open(io.BytesIO(file.getvalue())))


def check(images, test=(2, 3)):
    """Every image is there with its class, and stores are built of them."""
    assert len(images) == COUNT
    assert images.labels.tolist() == LABELS
    assert sorted(set(images.labels[images.test])) == list(test)
    for number in (0, 5, COUNT - 1):
        assert np.array_equal(images.decode(number), picture(number)[1])
    copied = pickle.loads(pickle.dumps(images))
    assert np.array_equal(copied.decode(4), picture(4)[1])
    assert len(make_splits(images, "paper")) == 1


def write_tar(path, samples):
    """A shard of (name, bytes)."""
    with tarfile.open(path, "w") as archive:
        for name, content in samples:
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))


def samples(numbers, about):
    for number in numbers:
        yield f"{number:04}.png", picture(number)[0]
        yield from about(number)


def as_class(number):
    yield f"{number:04}.cls", str(LABELS[number]).encode()


def as_json(number):
    split = "test" if LABELS[number] == 0 else "train"
    yield f"{number:04}.json", json.dumps({"label": f"c{LABELS[number]}", "split": split}).encode()


def test_webdataset(tmp_path):
    write_tar(tmp_path / "a-0.tar", samples(range(5), as_class))
    write_tar(tmp_path / "a-1.tar", samples(range(5, COUNT), as_class))
    images = load("webdataset", tmp_path)
    check(images)
    assert images.encoded(7) == picture(7)[0]
    write_tar(tmp_path / "one.tar", samples(range(COUNT), as_json))
    named = load("webdataset", tmp_path / "one.tar")
    check(named, test=[0])
    assert named.class_names == ("c0", "c1", "c2", "c3")
    assert named.fingerprint != images.fingerprint
    store = open_store(images, None, tmp_path / "cache", kind="jpeg")
    assert np.array_equal(store.labels, LABELS)


def test_a_compressed_shard_is_refused(tmp_path):
    """The places of its images are none in the file."""
    write_tar(tmp_path / "one.tar", samples(range(COUNT), as_class))
    packed = tmp_path / "packed.tar"
    packed.write_bytes(gzip.compress((tmp_path / "one.tar").read_bytes()))
    with pytest.raises(BadInput, match=r"cannot read the shard .*packed\.tar"):
        load("webdataset", packed)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ([("1.png", b"x")], "image 'a.tar/1.png' has no class"),
        ([("1.png", b"x"), ("1.json", b"{")], "unreadable class"),
        ([("1.png", b"x"), ("1.json", b"[1]")], "unreadable class"),
        ([("1.txt", b"x")], "no sample with an image"),
        (
            [("1.png", b"x"), ("1.json", b'{"label": 1, "split": "train"}'), ("2.png", b"x"),
             ("2.cls", b"1")],
            "split must be train, val or test, not 'None'",
        ),
        ([("1.png", b"x"), ("1.json", b'{"label": 1, "split": "dev"}')], "not 'dev'"),
    ],
)  # fmt: skip
def test_bad_shards_get_a_sentence(tmp_path, content, said):
    write_tar(tmp_path / "a.tar", content)
    with pytest.raises(BadInput, match=said):
        load("webdataset", tmp_path)


def test_members_of_holes_are_left_out(tmp_path):
    """A class of a terabyte of zeros takes a kilobyte in the archive, and would be read whole."""
    size = 2**40
    numbers = f"1\n{size}\n0\n".encode().ljust(512, b"\0")
    with tarfile.open(tmp_path / "a.tar", "w", format=tarfile.PAX_FORMAT) as shard:
        for name in ("0.cls", "1.cls"):
            holes = tarfile.TarInfo(name)
            holes.size = len(numbers)
            about = {"major": "1", "minor": "0", "name": name, "realsize": str(size)}
            holes.pax_headers = {f"GNU.sparse.{key}": value for key, value in about.items()}
            shard.addfile(holes, io.BytesIO(numbers))
    with pytest.raises(BadInput, match="no sample with an image and a class"):
        load("webdataset", tmp_path)


def test_what_is_no_shard_gets_a_sentence(tmp_path):
    (tmp_path / "a.tar").write_bytes(b"nothing" * 200)
    with pytest.raises(BadInput, match="cannot read the shard"):
        load("webdataset", tmp_path)
    (tmp_path / "empty").mkdir()
    for name in ("webdataset", "parquet"):
        with pytest.raises(BadInput, match=r"has no \."):
            load(name, tmp_path / "empty")
        with pytest.raises(BadInput, match=r"needs data\.root"):
            load(name)


@pytest.mark.parametrize("nested", [False, True])
def test_parquet(tmp_path, nested):
    for file, numbers in (("a.parquet", range(7)), ("b.parquet", range(7, COUNT))):
        encoded = [picture(number)[0] for number in numbers]
        column = [{"bytes": data, "path": None} for data in encoded] if nested else encoded
        table = pyarrow.table({"image": column, "label": [LABELS[n] for n in numbers]})
        pyarrow.parquet.write_table(table, tmp_path / file, row_group_size=3)
    images = load("parquet", tmp_path)
    check(images)
    assert images.encoded(8) == picture(8)[0]
    assert images.files[8] == "b.parquet/1"


def test_parquet_with_splits_and_without_columns(tmp_path):
    marks = ["train", "val", "test", "test"]
    columns = {
        "image": [picture(n)[0] for n in range(COUNT)],
        "label": [f"class {label}" for label in LABELS],
        "split": [marks[label] for label in LABELS],
    }
    path = tmp_path / "a.parquet"
    pyarrow.parquet.write_table(pyarrow.table(columns), path)
    images = load("parquet", path)
    check(images)
    assert set(images.labels[images.validation]) == {1}
    pyarrow.parquet.write_table(pyarrow.table({"image": columns["image"], "labels": LABELS}), path)
    with pytest.raises(BadInput, match=r"the column 'label' is missing; .*labels"):
        load("parquet", path)
    path.write_bytes(b"nothing")
    with pytest.raises(BadInput, match="cannot read"):
        load("parquet", path)


def hugging(numbers):
    features = datasets.Features(
        {"image": datasets.Image(), "label": datasets.ClassLabel(names=list("abcd"))}
    )
    rows = {
        "image": [{"bytes": picture(n)[0], "path": None} for n in numbers],
        "label": [LABELS[n] for n in numbers],
    }
    return datasets.Dataset.from_dict(rows, features=features)


def test_hugging_face(tmp_path):
    hugging(range(COUNT)).save_to_disk(tmp_path / "one")
    images = load("huggingface", tmp_path / "one")
    check(images)
    assert images.class_names == tuple("abcd")
    assert images.encoded(3) == picture(3)[0]
    parts = {"train": hugging(range(9)), "test": hugging(range(9, COUNT))}
    datasets.DatasetDict(parts).save_to_disk(tmp_path / "parts")
    check(load("huggingface", tmp_path / "parts"), test=[3])
    with pytest.raises(BadInput, match="no data set on disk"):
        load("huggingface", tmp_path / "nothing")


OWN = """
import datasets, torch
from torch.utils.data import TensorDataset
from torchvision.datasets import ImageFolder

def folder(root):
    return ImageFolder(str(root))

def tensors(root):
    saved = torch.load(root)
    return TensorDataset(saved["pixels"], saved["labels"])

def hugging(root):
    return datasets.load_from_disk(str(root))

def floats(root):
    return [(torch.zeros(3, 4, 4), 0)]

def nothing(root):
    return 3

def table(root):
    return {"a": 1}
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    """A module with data sets of one's own."""
    name = f"own_{tmp_path.name}".replace("-", "_")
    (tmp_path / f"{name}.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    kinds = [line.split()[1].partition("(")[0] for line in OWN.splitlines() if line[:4] == "def "]
    trust([f"{name}:{kind}" for kind in kinds])
    yield name
    sys.modules.pop(name, None)


def test_a_torch_dataset(tmp_path, own):
    for number, label in enumerate(LABELS):
        path = tmp_path / "pictures" / f"class {label}" / f"{number:02}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(picture(number)[0])
    images = load(f"{own}:folder", tmp_path / "pictures")
    check(images)
    assert images.class_names == tuple(ImageFolder(str(tmp_path / "pictures")).classes)
    again = load(f"{own}:folder", tmp_path / "pictures")
    assert again.fingerprint == images.fingerprint
    assert len(open_store(images, 8, tmp_path / "cache")) == COUNT


def test_a_dataset_of_tensors(tmp_path, own):
    pixels = torch.stack([torch.from_numpy(picture(n)[1].copy()) for n in range(COUNT)])
    saved = {"pixels": pixels.permute(0, 3, 1, 2), "labels": torch.tensor(LABELS)}
    torch.save(saved, tmp_path / "saved.pt")
    assert isinstance(TensorDataset(saved["pixels"], saved["labels"])[0][0], torch.Tensor)
    images = load(f"{own}:tensors", tmp_path / "saved.pt")
    check(images)
    saved["pixels"] = 255 - saved["pixels"]
    torch.save(saved, tmp_path / "other.pt")
    assert load(f"{own}:tensors", tmp_path / "other.pt").fingerprint != images.fingerprint


def test_a_hugging_face_dataset_of_ones_own(tmp_path, own):
    hugging(range(COUNT)).save_to_disk(tmp_path / "one")
    check(load(f"{own}:hugging", tmp_path / "one"))


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("floats", "uint8 pixels, not float32"),
        ("nothing", "length and items .*, not int"),
        ("table", "length and items .*, not dict"),
    ],
)
def test_what_is_no_dataset_gets_a_sentence(own, kind, said):
    with pytest.raises(BadInput, match=said):
        load(f"{own}:{kind}")


def test_a_split_or_class_of_another_kind_gets_a_sentence(tmp_path):
    path = tmp_path / "table.parquet"
    for columns, sentence in (
        ({"label": [0, 1], "split": ["train", None]}, "split"),
        ({"label": [0, 1], "split": [[1], [2]]}, "split must be train, val or test"),
        ({"label": [[0], [1]]}, "a class must be a name or a number"),
        ({"label": [float("nan"), 1.0]}, "a class must be a name or a number"),
    ):
        pyarrow.parquet.write_table(pyarrow.table({"image": [b"1", b"2"]} | columns), path)
        with pytest.raises(BadInput, match=sentence):
            load("parquet", path)


def test_an_image_column_without_bytes_is_unreadable(tmp_path):
    path = tmp_path / "table.parquet"
    columns = {"image": [-1, 2], "label": [0, 1], "split": ["train", "test"]}
    pyarrow.parquet.write_table(pyarrow.table(columns), path)
    with pytest.raises(UnreadableImage):
        load("parquet", path).decode(0)


def test_parquet_with_damaged_pages_gets_a_sentence(tmp_path):
    path = tmp_path / "table.parquet"
    columns = {"image": [b"1"] * 50, "label": [f"name {n}" for n in range(50)]}
    pyarrow.parquet.write_table(pyarrow.table(columns), path, compression="gzip")
    data = bytearray(path.read_bytes())
    data[60 : len(data) // 2] = bytes(len(data) // 2 - 60)
    path.write_bytes(data)
    with pytest.raises(BadInput, match="cannot read"):
        load("parquet", path)


def test_a_class_of_thousands_of_digits_is_a_name(tmp_path):
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        for name, content in (("0.png", b"1"), ("0.cls", b"1" * 5000)):
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    assert load("webdataset", tmp_path).class_names == ("1" * 5000,)


def test_parquet_with_names_that_are_no_text_is_refused(tmp_path):
    path = tmp_path / "table.parquet"
    pyarrow.parquet.write_table(pyarrow.table({"image": [b"1"], "label": [0]}), path)
    path.write_bytes(path.read_bytes().replace(b"label", b"labe\xa0"))
    with pytest.raises(BadInput, match=r"cannot read '.*table\.parquet'"):
        load("parquet", path)


@pytest.mark.parametrize("named", ["http://localhost/x.png", "zip://x::http://localhost/", "FILE"])
def test_a_folder_of_hugging_face_names_no_file_elsewhere(tmp_path, named):
    """``save_to_disk`` writes the images themselves; who forges it gets no other file read."""
    outside = tmp_path / "private.png"
    outside.write_bytes(picture(0)[0])
    features = datasets.Features(
        {"image": datasets.Image(), "label": datasets.ClassLabel(names=list("abcd"))}
    )
    rows = [{"bytes": picture(number)[0], "path": None} for number in range(COUNT)]
    whole = datasets.Dataset.from_dict({"image": rows, "label": LABELS}, features=features)
    whole.save_to_disk(tmp_path / "own")
    (path,) = (tmp_path / "own").glob("*.arrow")
    table = pyarrow.ipc.open_stream(path).read_all()
    rows[0] = {"bytes": None, "path": named.replace("FILE", str(outside))}
    forged = table.set_column(0, table.schema.field(0), pyarrow.array(rows, table.schema.types[0]))
    with pyarrow.ipc.new_stream(str(path) + ".new", table.schema) as sink:
        sink.write_table(forged)
    os.replace(str(path) + ".new", path)
    images = load("huggingface", tmp_path / "own")
    with pytest.raises(UnreadableImage, match="has no image itself"):
        images.decode(0)
    assert images.decode(1).shape == (10, 12, 3)


def test_a_folder_of_hugging_face_with_offsets_beyond_its_data_is_refused(tmp_path):
    features = datasets.Features(
        {"image": datasets.Image(), "label": datasets.ClassLabel(names=list("abcd"))}
    )
    rows = [{"bytes": b"x" * 16, "path": None} for _ in range(COUNT)]
    whole = datasets.Dataset.from_dict({"image": rows, "label": LABELS}, features=features)
    whole.save_to_disk(tmp_path / "own")
    (path,) = (tmp_path / "own").glob("*.arrow")
    content = path.read_bytes()
    offsets = np.arange(0, 16 * (COUNT + 1), 16, dtype=np.int32)
    wrong = offsets.copy()
    wrong[5:] += 2**30
    assert offsets.tobytes() in content
    path.unlink()
    path.write_bytes(content.replace(offsets.tobytes(), wrong.tobytes()))
    with pytest.raises(BadInput, match="is no data set on disk"):
        load("huggingface", tmp_path / "own")
