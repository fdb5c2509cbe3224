import os
import time
from pathlib import Path

import numpy as np
import platformdirs
import pytest
from PIL import Image
from torchvision.transforms.functional import resize

from lookalike.data.cache import cache_folder, remove_abandoned, resized
from lookalike.errors import BadInput


@pytest.mark.parametrize("size", [(50, 80), (80, 50), (64, 64), (31, 97), (20, 20)])
def test_resizes_like_torchvision(size):
    pixels = np.random.default_rng(1).integers(0, 256, (*size, 3), dtype=np.uint8)
    expected = np.asarray(resize(Image.fromarray(pixels), 32))
    assert np.array_equal(resized(pixels, 32), expected)
    expected = np.asarray(resize(Image.fromarray(pixels), (24, 32)))
    assert np.array_equal(resized(pixels, (24, 32)), expected)


def test_grey_images_stay_grey_when_resized():
    assert resized(np.zeros((8, 12, 1), np.uint8), 4).shape == (4, 6, 1)


def test_only_abandoned_drafts_are_removed(tmp_path):
    old, fresh, other, whole = (tmp_path / name for name in (".x[1].a", ".x[1].b", ".y.a", "x[1]"))
    for file in (old, fresh, other, whole):
        file.touch()
    for file in (old, other, whole):
        os.utime(file, (time.time() - 10_000,) * 2)
    remove_abandoned(whole)
    assert sorted(tmp_path.iterdir()) == sorted([fresh, other, whole])


def test_cache_folder_is_chosen_in_order(tmp_path, monkeypatch):
    monkeypatch.setenv("LOOKALIKE_CACHE", str(tmp_path / "env"))
    assert cache_folder() == tmp_path / "env"
    assert cache_folder(tmp_path / "given") == tmp_path / "given"
    assert (tmp_path / "given").is_dir()
    monkeypatch.delenv("LOOKALIKE_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder() == Path(platformdirs.user_cache_dir("lookalike"))


def test_a_cache_folder_that_cannot_be_is_refused(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(BadInput, match="LOOKALIKE_CACHE"):
        cache_folder(tmp_path / "file" / "inside")
