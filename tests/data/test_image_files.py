import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from lookalike.data import UnreadableImage
from lookalike.data.image_files import BoundedFile, read_image
from lookalike.data.listed_images import from_listing
from lookalike.data.listing import in_folder
from lookalike.data.official import require
from lookalike.errors import BadInput


def make(folder: Path, files: list[str], **changes):
    labels = np.arange(len(files), dtype=np.int64)
    names = [f"class {i}" for i in labels]
    return from_listing("mine", in_folder(folder, files), labels, names, labels > 0, **changes)


def test_pixels_of_a_png_are_exact(tmp_path, save_image):
    pixels = save_image(tmp_path / "a.png")
    assert np.array_equal(read_image(tmp_path / "a.png", "a.png", upright=False), pixels)


@pytest.mark.parametrize("mode", ["L", "P", "1", "CMYK", "LA", "RGBA"])
def test_every_mode_becomes_rgb(tmp_path, mode):
    path = tmp_path / ("a.tif" if mode == "CMYK" else "a.png")
    Image.new(mode, (5, 4)).save(path)
    assert read_image(path, "a", upright=False).shape == (4, 5, 3)


def test_transparent_parts_become_white(tmp_path):
    Image.new("RGBA", (2, 2), (255, 0, 0, 0)).save(tmp_path / "a.png")
    assert (read_image(tmp_path / "a.png", "a.png", upright=False) == 255).all()


def test_only_own_pictures_are_turned_upright(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.new("RGB", (8, 4)).save(tmp_path / "a.jpg", exif=exif)
    assert read_image(tmp_path / "a.jpg", "a.jpg", upright=True).shape == (8, 4, 3)
    assert read_image(tmp_path / "a.jpg", "a.jpg", upright=False).shape == (4, 8, 3)


def test_broken_files_are_named(tmp_path, save_image):
    save_image(tmp_path / "whole.jpg", (200, 200))
    data = (tmp_path / "whole.jpg").read_bytes()
    (tmp_path / "cut.jpg").write_bytes(data[: len(data) // 2])
    (tmp_path / "empty.jpg").write_bytes(b"")
    (tmp_path / "text.png").write_text("no picture")
    (tmp_path / "folder.jpg").mkdir()
    files = ["cut.jpg", "empty.jpg", "text.png", "folder.jpg", "gone.jpg"]
    images = make(tmp_path, files)
    for index, file in enumerate(files):
        with pytest.raises(UnreadableImage) as caught:
            images.decode(index)
        assert caught.value.file == file


def test_a_file_that_claims_to_be_larger_takes_no_memory(tmp_path, save_image):
    """Python reserves what is asked for, and Pillow asks for what a chunk of a PNG claims."""
    save_image(tmp_path / "a.png", (20, 20))
    data = (tmp_path / "a.png").read_bytes()
    with BoundedFile(tmp_path / "a.png") as file:
        assert file.read(2**62) == data
        assert file.read(1) == b""
        file.seek(5)
        assert file.read(None) == data[5:]
        file.seek(10**6)
        assert file.read(9) == b""


def test_fingerprint_follows_content_not_place_or_time(tmp_path, save_image):
    for place in ("here", "there"):
        save_image(tmp_path / place / "a.png")
        save_image(tmp_path / place / "b.png", seed=1)
    here, there = (make(tmp_path / place, ["a.png", "b.png"]) for place in ("here", "there"))
    assert here.fingerprint == there.fingerprint
    assert make(tmp_path / "here", ["b.png", "a.png"]).fingerprint != here.fingerprint
    query = make(tmp_path / "here", ["a.png", "b.png"], query=np.array([False, True]))
    assert query.fingerprint != here.fingerprint
    os.utime(tmp_path / "here" / "a.png", ns=(1, 1))
    touched = make(tmp_path / "here", ["a.png", "b.png"])
    assert touched.fingerprint == here.fingerprint
    assert touched.stamp != here.stamp
    save_image(tmp_path / "here" / "a.png", (30, 30))
    assert make(tmp_path / "here", ["a.png", "b.png"]).fingerprint != here.fingerprint


def test_require_says_what_is_missing_where(tmp_path):
    with pytest.raises(BadInput, match=r"needs data\.root: the folder that holds Inner/"):
        require("x", None, "Inner", ["a"])
    with pytest.raises(BadInput, match=r"is no folder: .*gone"):
        require("x", tmp_path / "gone", "Inner", ["a"])
    with pytest.raises(BadInput, match=f"{tmp_path} does not hold 'x'.*a and b expected there"):
        require("x", tmp_path, "Inner", ["a", "b"])
    (tmp_path / "Inner").mkdir()
    (tmp_path / "Inner" / "a").touch()
    assert require("x", tmp_path, "Inner", ["a"]) == tmp_path / "Inner"
    assert require("x", tmp_path / "Inner", "Inner", ["a"]) == tmp_path / "Inner"
