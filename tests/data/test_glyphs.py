from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

from lookalike.data import load
from lookalike.data.glyphs import LEAST_FONTS, SIDE
from lookalike.errors import BadInput


def test_has_the_promised_shape():
    with pytest.raises(BadInput, match="built in"):
        load("glyphs", "somewhere")
    images = load("glyphs")
    sizes = np.bincount(images.labels)
    assert 2_000 <= len(images.class_names) <= 3_000
    assert sizes.min() == LEAST_FONTS
    assert sizes.max() <= 40
    first = images.decode(0)
    assert first.shape == (SIDE, SIDE, 1)
    assert first.dtype == np.uint8


def test_no_drawing_is_blank_and_none_twice_in_a_class():
    images = load("glyphs")
    seen = set()
    for index, label in enumerate(images.labels):
        drawing = images.decode(index)
        assert drawing.any()
        seen.add((label, drawing.tobytes()))
    assert len(seen) == len(images)


def test_only_text_fonts_are_used():
    fonts = {file.partition("/")[2] for file in load("glyphs").files}
    assert {"DejaVuSans", "STIXGeneral", "cmr10"} <= fonts
    left_out = ("LastResort", "cmex10", "cmsy10", "STIXNonUni", "STIXSiz")
    assert not any(font.startswith(left_out) for font in fonts)


def test_computer_modern_draws_letters_and_digits_only():
    # Its other positions follow TeX: U+00A1 would show a capital gamma.
    points = {f.partition("/")[0] for f in load("glyphs").files if "/cm" in f}
    assert points == {f"U+{ord(c):04X}" for c in map(chr, range(128)) if c.isalnum()}


def class_of(images, character):
    point = f"U+{ord(character):04X}/"
    found = {images.labels[i] for i, file in enumerate(images.files) if file.startswith(point)}
    assert len(found) <= 1
    return found


def test_characters_that_look_the_same_are_one_class():
    images = load("glyphs")
    assert "A" in images.class_names
    for character in ("\u0391", "\u0410"):  # capital alpha, Cyrillic capital a
        assert character not in images.class_names
        assert class_of(images, character) <= class_of(images, "A")
    assert class_of(images, "B") != class_of(images, "8")
    assert class_of(images, "0") != class_of(images, "O")


def test_few_drawings_have_a_twin_in_another_class():
    images = load("glyphs")
    classes = defaultdict(set)
    for index, label in enumerate(images.labels):
        classes[images.decode(index).tobytes()].add(label)
    assert sum(len(found) > 1 for found in classes.values()) < 0.02 * len(classes)


def test_halves_are_class_disjoint_and_hold_all_scripts():
    images = load("glyphs")
    train, test = (set(images.labels[mask]) for mask in (~images.test, images.test))
    assert not train & test
    assert abs(len(train) - len(test)) <= 1
    for first, last in ((0x41, 0x24F), (0x391, 0x3C9), (0x410, 0x44F)):  # Latin, Greek, Cyrillic
        for half in (train, test):
            assert any(first <= ord(images.class_names[c]) <= last for c in half)


def test_drawn_anew_it_is_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    cached = load("glyphs")
    monkeypatch.setenv("LOOKALIKE_CACHE", str(tmp_path))
    anew = load("glyphs")
    assert anew.fingerprint == cached.fingerprint
    assert anew.files == cached.files
    assert [file.suffix for file in tmp_path.iterdir()] == [".npz"]
