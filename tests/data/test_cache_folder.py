import os
import time
from pathlib import Path

import platformdirs
import pytest

from lookalike.data.cache_folder import cache_folder, remove_abandoned
from lookalike.errors import BadInput


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
