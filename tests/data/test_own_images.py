import os
from pathlib import Path

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


@pytest.mark.parametrize("name", [b"caf\xe9/1.png", b"a/\xff.png"])
def test_names_that_are_not_utf_8_are_refused(tmp_path, save_image, name):
    save_image(tmp_path / "b" / "1.png")
    save_image(tmp_path / os.fsdecode(name))
    with pytest.raises(BadInput, match=r"the name '.*\\udc.*' is not UTF-8"):
        load("folder", tmp_path)


def test_wrong_roots_are_refused(tmp_path):
    with pytest.raises(BadInput, match=r"needs data\.root"):
        load("folder")
    with pytest.raises(BadInput, match="is no folder"):
        load("folder", tmp_path / "gone")
    with pytest.raises(BadInput, match="has no class folders"):
        load("folder", tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(BadInput, match="class folders without a picture: empty"):
        load("folder", tmp_path)


@pytest.fixture
def written(tmp_path: Path, save_image):
    for i in range(4):
        save_image(tmp_path / "img" / f"{i}.png", seed=i)

    def write(text: str) -> Path:
        path = tmp_path / "list.csv"
        path.write_text(text, encoding="utf-8")
        return path

    return write


def test_paths_are_relative_to_the_table(written):
    images = load("csv", written("path,label\nimg/0.png,dog\nimg/1.png,cat\nimg/2.png,dog\n"))
    assert images.files == ("img/0.png", "img/1.png", "img/2.png")
    assert images.class_names == ("dog", "cat")
    assert images.labels.tolist() == [0, 1, 0]
    assert images.test.tolist() == [False, True, False]
    assert images.query is None
    assert images.decode(2).shape == (20, 24, 3)


def test_split_query_gallery_and_a_byte_order_mark(written):
    text = (
        "\ufefflabel, path,split,query,gallery\n"
        "cat,img/0.png,train,,0\n"
        "dog,img/1.png,Test,1,0\n"
        'dog,"img/2.png",test,no,yes\n'
        "dog,img/3.png,test,0,0\n"
    )
    images = load("csv", written(text))
    assert images.test.tolist() == [False, True, True, True]
    assert images.query is not None
    assert images.gallery is not None
    assert images.query.tolist() == [False, True, False, False]
    assert images.gallery.tolist() == [False, False, True, False]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "'path' is missing"),
        ("path\nimg/0.png\n", "'label' is missing"),
        ("path,lable\n", "unknown column 'lable'; did you mean 'label'"),
        ("path,label\n", "no rows"),
        ("path,label\nimg/0.png\n", "row 2: 2 values expected"),
        ("path,label\nimg/0.png,a,b\n", "row 2: 2 values expected"),
        ("path,label\nimg/0.png,a\n,a\n", "row 3: path and label must not be empty"),
        ("path,label\nimg/0.png,a\nimg/0.png,b\n", "row 3: 'img/0.png' is there twice"),
        ("path,label,split\nimg/0.png,a,dev\n", "train, val or test, not 'dev'"),
        ("path,label,query\nimg/0.png,a,1\n", "'gallery' is missing"),
        ("path,label,split,query,gallery\nimg/0.png,a,test,2,1\n", "query must be 1 or 0"),
        ("path,label,split,query,gallery\nimg/0.png,a,train,1,0\n", "only test images"),
        ('path,label\n"img/0.png,a\n', "cannot read"),
    ],
)
def test_wrong_tables_get_a_sentence(written, text, sentence):
    with pytest.raises(BadInput, match=sentence):
        load("csv", written(text))


def test_wrong_files_get_a_sentence(tmp_path):
    with pytest.raises(BadInput, match=r"needs data\.root"):
        load("csv")
    with pytest.raises(BadInput, match="is no file"):
        load("csv", tmp_path)
    (tmp_path / "list.csv").write_bytes(b"path,label\n\xff\xfe,a\n")
    with pytest.raises(BadInput, match="cannot read"):
        load("csv", tmp_path / "list.csv")
