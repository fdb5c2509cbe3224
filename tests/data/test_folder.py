import pytest

from lookalike.data import load
from lookalike.errors import BadInput


def test_classes_are_sorted_folders_with_pictures_at_any_depth(tmp_path, save_image):
    for file in (
        "b/2.png",
        "b/deep/er/1.JPG",
        "a/x.webp",
        "c/1.png",
        "c/.hidden.png",
        ".git/1.png",
    ):
        save_image(tmp_path / file)
    (tmp_path / "a" / "notes.txt").touch()
    (tmp_path / "readme.md").touch()
    images = load("folder", tmp_path)
    assert images.files == ("a/x.webp", "b/2.png", "b/deep/er/1.JPG", "c/1.png")
    assert images.class_names == ("a", "b", "c")
    assert images.labels.tolist() == [0, 1, 1, 2]
    assert images.test.tolist() == [False, False, False, True]


def test_pictures_outside_the_class_folders_are_refused(tmp_path, save_image):
    save_image(tmp_path / "a" / "1.png")
    save_image(tmp_path / "loose.png")
    with pytest.raises(BadInput, match=r"1 picture\(s\) outside any class folder.*loose\.png"):
        load("folder", tmp_path)


def test_wrong_roots_are_refused(tmp_path):
    with pytest.raises(BadInput, match=r"needs data\.root"):
        load("folder")
    with pytest.raises(BadInput, match="is no folder"):
        load("folder", tmp_path / "gone")
    with pytest.raises(BadInput, match="contains no class folders"):
        load("folder", tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(BadInput, match="empty holds no picture"):
        load("folder", tmp_path)
