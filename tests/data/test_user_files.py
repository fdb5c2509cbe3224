"""What users' folders and tables hold: other formats, other separators, several problems."""

import numpy as np
import pytest
from PIL import Image

from lookalike import data
from lookalike.data.image_files import HEIC, OTHER_FORMATS, open_rgb
from lookalike.errors import BadInput, LookalikeWarning
from lookalike.inference.source import open_source
from lookalike.search.items import records_of


@pytest.fixture
def photos(tmp_path):
    """Eight classes of three images."""
    random = np.random.default_rng(0)
    for name in "abcdefgh":
        (tmp_path / name).mkdir()
        for number in range(3):
            pixels = random.integers(0, 256, (20, 20, 3), np.uint8)
            Image.fromarray(pixels).save(tmp_path / name / f"{number}.png")
    return tmp_path


def test_avif_is_read(photos):
    Image.new("RGB", (20, 20), "red").save(photos / "a" / "new.avif")
    images = data.load("folder", photos)
    assert "a/new.avif" in images.files
    red, green, _ = images.decode(images.files.index("a/new.avif"))[0, 0]
    assert red > 200 > green


@pytest.mark.skipif(not HEIC, reason="the extra heic is not installed")
def test_heic_is_read(photos):
    import pillow_heif

    image = Image.new("RGB", (64, 64), "blue")
    pillow_heif.from_pillow(image).save(photos / "a" / "phone.heic")
    assert open_rgb(photos / "a" / "phone.heic").getpixel((5, 5))[2] > 200
    assert "a/phone.heic" in data.load("folder", photos).files


def test_other_formats_are_counted_and_named(photos):
    assert ".psd" in OTHER_FORMATS
    (photos / "a" / "layers.psd").write_bytes(b"8BPS")
    with pytest.warns(LookalikeWarning, match=r"1 picture\(s\) .* \.psd is not read; convert"):
        data.load("folder", photos)
    skipped = open_source(photos).skipped
    assert [(one.path, one.reason) for one in skipped] == [
        ("a/layers.psd", ".psd is not read; convert it to JPEG or PNG")
    ]


def test_a_folder_says_all_its_problems_at_once(photos):
    (photos / "empty").mkdir()
    (photos / "void").mkdir()
    Image.new("RGB", (20, 20)).save(photos / "loose.png")
    with pytest.raises(BadInput) as refused:
        data.load("folder", photos)
    assert "outside any class folder (the first: loose.png)" in str(refused.value)
    assert "class folders without a picture: empty, void" in str(refused.value)


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_one_table_serves_training_and_index(photos, separator):
    table = photos / "shop.csv"
    rows = [["path", "label", "price"]]
    rows += [[f"{name}/{number}.png", name, "9.5"] for name in "abcd" for number in range(3)]
    table.write_text("\n".join(separator.join(row) for row in rows))
    assert len(data.load("csv", table)) == 12
    records = records_of(open_source(table).table, 0)
    assert records[0].label == "a"
    assert records[0].metadata == {"price": "9.5"}


def test_check_says_what_train_will_refuse(photos):
    (photos / "a" / "0.png").write_bytes(b"no picture")
    found = data.check(data.load("folder", photos))
    assert len(found.refusals) == 1
    assert "data.skip_unreadable=true" in str(found)
    (photos / "a" / "0.png").unlink()
    assert not data.check(data.load("folder", photos)).refusals
    for name in "bcdefgh":
        for file in (photos / name).iterdir():
            file.unlink()
        (photos / name).rmdir()
    assert data.check(data.load("folder", photos)).refusals


def test_a_table_that_names_an_impossible_file(tmp_path):
    from lookalike.data import UnreadableImage, load

    (tmp_path / "t.csv").write_text('path,label,split\na\0b,x,train\n"c\nd",y,test\n')
    images = load("csv", tmp_path / "t.csv")
    for index in (0, 1):
        with pytest.raises(UnreadableImage) as refused:
            images.decode(index)
        assert str(refused.value).isprintable()
