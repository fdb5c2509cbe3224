import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from lookalike.data import UnreadableImage, load
from lookalike.data.image_set import digest, refuse_unreadable
from lookalike.errors import BadInput


def test_without_leaves_out_and_names(image_set):
    pixels = [np.full((2, 2, 3), i, np.uint8) for i in range(6)]
    whole = image_set(pixels, [0, 0, 1, 1, 2, 2], query=np.ones(6, bool))
    part = whole.without([4, 1])
    assert part.files == ("0.png", "2.png", "3.png", "5.png")
    assert part.labels.tolist() == [0, 1, 1, 2]
    assert part.unreadable == ("1.png", "4.png")
    assert [int(part.decode(i)[0, 0, 0]) for i in range(4)] == [0, 2, 3, 5]
    assert part.query is not None
    assert len(part.query) == 4
    assert part.fingerprint != whole.fingerprint
    assert whole.without([]) is whole
    assert part.without([0]).unreadable == ("1.png", "4.png", "0.png")


@pytest.mark.parametrize(
    "wrong", [{"labels": np.zeros(3, np.int64)}, {"labels": np.array([0, 7])}, {"test": np.ones(1)}]
)
def test_values_that_do_not_fit_are_refused(image_set, wrong):
    fine = image_set([np.zeros((1, 1, 3), np.uint8)] * 2, [0, 1])
    with pytest.raises(ValueError, match="memory"):
        replace(fine, **wrong)


def test_digest_keeps_parts_apart():
    assert digest("ab", "c") != digest("a", "bc")
    assert digest(np.array([1, 2])) == digest(np.array([1, 9, 2])[::2])


def test_the_sentence_names_ten_and_the_count():
    sentence = str(
        refuse_unreadable("cub", [UnreadableImage(f"{i}.jpg", "cut") for i in range(12)])
    )
    assert "12 images of 'cub'" in sentence
    assert "9.jpg (cut) and 2 more" in sentence
    assert "10.jpg" not in sentence
    assert "data.skip_unreadable=true" in sentence
    assert str(refuse_unreadable("cub", [UnreadableImage("a", "b")])).startswith("1 image of")


def test_unreadable_image_travels_between_processes():
    copy = pickle.loads(pickle.dumps(UnreadableImage("a.jpg", "cut")))
    assert (copy.file, copy.reason) == ("a.jpg", "cut")


def test_load_refuses_an_unknown_name():
    with pytest.raises(BadInput, match="did you mean 'cub'"):
        load("cubs")


def test_load_takes_a_home_folder(tmp_path: Path, monkeypatch, save_image):
    save_image(tmp_path / "pictures" / "a" / "1.png")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert len(load("folder", "~/pictures")) == 1
