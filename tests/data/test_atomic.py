import os
import time
from pathlib import Path

import platformdirs
import pytest

from lookalike.data.atomic import cache_folder, written_whole
from lookalike.errors import BadInput


def test_appears_only_when_whole(tmp_path):
    path = tmp_path / "x"
    with written_whole(path) as file:
        file.write(b"whole")
        assert not path.exists()
    assert path.read_bytes() == b"whole"
    assert list(tmp_path.iterdir()) == [path]


def test_failure_leaves_the_old_file(tmp_path):
    path = tmp_path / "x"
    path.write_bytes(b"old")

    def fail():
        with written_whole(path) as file:
            file.write(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_only_abandoned_leftovers_are_swept(tmp_path):
    old, fresh, other = (tmp_path / name for name in (".x.1.part", ".x.2.part", ".y.1.part"))
    for left in (old, fresh, other):
        left.touch()
    for left in (old, other):
        os.utime(left, (time.time() - 10_000,) * 2)
    with written_whole(tmp_path / "x"):
        pass
    assert not old.exists()
    assert fresh.exists()
    assert other.exists()


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
