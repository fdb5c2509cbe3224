"""Pipes, devices and links to nothing in a folder of pictures: nobody waits for them."""

import os
import re
import socket
import time
from pathlib import Path

import pytest
from PIL import Image

import lookalike
from lookalike.data import load
from lookalike.data.image_files import open_rgb, picture_files, read_image
from lookalike.data.image_set import UnreadableImage
from lookalike.errors import BadInput, LookalikeError
from lookalike.files import file_checksum, read_json
from lookalike.inference.source import open_source


@pytest.fixture
def special(tmp_path):
    """Two classes of two pictures, and what is no picture but is called like one."""
    for label in ("a", "b"):
        (tmp_path / label / "deep").mkdir(parents=True)
        for name in ("1.png", "deep/2.jpg"):
            Image.new("RGB", (8, 8), "red").save(tmp_path / label / name)
    os.mkfifo(tmp_path / "a" / "pipe.jpg")
    os.symlink("/dev/zero", tmp_path / "a" / "device.png")
    os.symlink(tmp_path / "nothing", tmp_path / "b" / "nothing.png")
    (tmp_path / "b" / "folder.png").mkdir()
    with socket.socket(socket.AF_UNIX) as server:
        os.chdir(tmp_path)  # the path of a socket must be short
        server.bind("b/socket.png")
    return tmp_path


def test_all_commands_list_the_regular_files_only(special, monkeypatch):
    monkeypatch.chdir(special)
    expected = ["a/1.png", "a/deep/2.jpg", "b/1.png", "b/deep/2.jpg"]
    assert list(load("folder", special).files) == expected
    assert sorted(picture_files(special)) == expected
    assert len(open_source(special)) == len(expected)


@pytest.fixture
def nested(tmp_path):
    """Folders inside of each other, of which some hold a picture, in the order of their names."""
    made = [Path("a", *["x"] * number) for number in range(1_500)] + [Path("b")]
    holding = [made[0], made[-3], made[-2], made[-1]]
    for place in made:
        (tmp_path / place).mkdir()
    for place in holding:
        Image.new("RGB", (8, 8), "red").save(tmp_path / place / "1.png")
    yield tmp_path, [str(place / "1.png") for place in holding]
    for place in reversed(made):  # pytest cannot remove them
        (tmp_path / place / "1.png").unlink(missing_ok=True)
        (tmp_path / place).rmdir()


def test_folders_that_are_nested_deeper_than_pythons_calls(nested):
    folder, expected = nested
    assert list(picture_files(folder)) == expected


def test_a_pipe_that_a_table_names_is_unreadable(special, monkeypatch):
    monkeypatch.chdir(special)
    (special / "table.csv").write_text("path,label\na/1.png,a\na/pipe.jpg,b\na/device.png,b\n")
    images = load("csv", special / "table.csv")
    for index in (1, 2):
        with pytest.raises(UnreadableImage, match="it is no regular file"):
            images.decode(index)
        with pytest.raises(OSError, match="it is no regular file"):
            images.encoded(index)


def test_no_reader_waits_for_a_pipe(special, monkeypatch):
    monkeypatch.chdir(special)
    pipe = special / "a" / "pipe.jpg"
    started = time.monotonic()
    for read in (open_rgb, file_checksum):
        with pytest.raises(OSError, match="it is no regular file"):
            read(pipe)
    with pytest.raises(LookalikeError, match="it is no regular file"):
        read_json(pipe)
    with pytest.raises(UnreadableImage):
        read_image(pipe, "pipe.jpg", upright=True)
    assert time.monotonic() - started < 60


@pytest.mark.parametrize("name", ["webdataset", "parquet", "huggingface"])
def test_a_pipe_among_the_files_of_a_data_set_is_not_waited_for(tmp_path, name):
    for file in ("a.tar", "a.parquet", "state.json", "dataset_info.json"):
        os.mkfifo(tmp_path / file)
    with pytest.raises(BadInput, match=r"no \.tar file|no \.parquet file|no regular file"):
        load(name, tmp_path)


READERS = re.compile(
    r"\.read_(text|bytes)\(|\.open\((\"rb?\"|newline|encoding)|path\.open\(\)"
    r"|(?<!def )(?<![.\w])open\("
)
OWN = re.compile(r"Path\(__file__\)|\bown / |importlib|__name__|devnull|open_file\(")
"""Files of the package itself."""


def test_files_of_others_are_opened_by_functions_that_refuse_pipes():
    """Who needs another way to read adds it here, and says why it may."""
    allowed = {
        "files.py",  # the functions
        "config/recipes.py",  # of the package
        "data/archives.py",  # the tag beside a download, which the download wrote
        "inference/cluster.py",  # a temporary folder
        "inference/onnx_encoder.py",  # a draft
        "papers/scale.py",  # of the package
        "published.py",  # of the package
        "report/watch.py",  # a temporary folder
        "serve/tokens.py",  # typed by the user, who may give a pipe
        "training/checkpoint.py",  # a draft, to flush it
        "training/distributed/launch.py",  # a temporary folder
    }
    root = Path(lookalike.__file__).parent
    found = set()
    for path in root.rglob("*.py"):
        name = path.relative_to(root).as_posix()
        lines = path.read_text(encoding="utf-8").splitlines()
        if any(READERS.search(line) and not OWN.search(line) for line in lines):
            found.add(name)
    assert found <= allowed
