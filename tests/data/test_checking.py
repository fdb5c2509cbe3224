import json
import shutil

import pytest
from PIL import Image

from lookalike.data import check, load


@pytest.fixture
def untidy(tmp_path, save_image):
    for i in range(4):
        save_image(tmp_path / "ab"[i // 2] / f"{i}.png", seed=i)
    save_image(tmp_path / "single" / "4.png", seed=4)
    save_image(tmp_path / "z" / "5.png", seed=5)
    (tmp_path / "z" / "cut.jpg").write_bytes(b"\xff\xd8\xff")
    shutil.copy(tmp_path / "a" / "0.png", tmp_path / "a" / "copy.png")
    # The same pixels in another file format, under another label.
    Image.open(tmp_path / "b" / "2.png").save(tmp_path / "z" / "same.bmp")
    return tmp_path


def test_finds_what_is_there_to_find(untidy):
    seen = []
    report = check(load("folder", untidy), lambda done, total: seen.append((done, total)))
    assert seen[-1] == (9, 9)
    assert report.counts.train_images + report.counts.test_images == 9
    assert [file for file, _ in report.unreadable] == ["z/cut.jpg"]
    assert report.duplicates == (("a/0.png", "a/copy.png"), ("b/2.png", "z/same.bmp"))
    assert report.mislabelled == (("b/2.png", "z/same.bmp"),)
    assert report.single_image_classes == ("single",)


def test_reads_as_text_and_as_json(untidy):
    report = check(load("folder", untidy))
    text = str(report)
    assert "folder: 5 training images of 2 classes and 4 test images of 2 classes" in text
    assert "unreadable images: 1\n  z/cut.jpg: " in text
    assert "groups of identical images: 2\n  a/0.png = a/copy.png" in text
    assert "classes with one image: 1\n  single" in text
    values = json.loads(json.dumps(report.as_dict()))
    assert values["counts"]["train_classes"] == 2
    assert values["single_image_classes"] == ["single"]


def test_long_lists_are_shortened(tmp_path, save_image):
    for i in range(13):
        save_image(tmp_path / f"{i:02d}" / "x.png", seed=i)
    text = str(check(load("folder", tmp_path)))
    assert "classes with one image: 13" in text
    assert "  09\n  and 3 more" in text


def test_a_tidy_set_has_nothing_to_tell(tmp_path, save_image):
    for i in range(4):
        save_image(tmp_path / "ab"[i // 2] / f"{i}.png", seed=i)
    report = check(load("folder", tmp_path))
    assert (report.unreadable, report.duplicates, report.single_image_classes) == ((), (), ())
