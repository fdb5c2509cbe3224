"""Features whose computation was interrupted: what was done is kept."""

import numpy as np
import pytest
import torch

from lookalike.data.cache import cache_folder
from lookalike.training import Watcher, train

FROZEN = [
    "data.name=folder",
    "data.transform=none",
    "model.network=efficientnet-lite0",
    "model.weights=imagenet",
    "model.frozen=true",
    "model.frozen_views=2",
    "train.epochs=0",
]


class Listening(Watcher):
    """Notes which batches of features were computed; may stop like Ctrl-C."""

    def __init__(self, stop_at=None):
        self.stop_at = stop_at
        self.batches = []

    def stage(self, name, done, total, detail=""):
        if name == "computing features":
            self.batches.append(done)
            if done == self.stop_at:
                raise KeyboardInterrupt


def stored_features():
    (path,) = cache_folder().glob("*.features.npy")
    return torch.from_numpy(np.load(path))


def test_an_interruption_keeps_what_was_computed(tiny, patterns, tmp_path, monkeypatch):
    given = [*FROZEN, f"data.root={patterns}"]  # 192 images: two batches of each of three views
    monkeypatch.setenv("LOOKALIKE_CACHE", str(tmp_path / "whole"))
    whole = Listening()
    train(tiny(*given, f"runs_dir={tmp_path / 'a'}"), whole)
    assert whole.batches == [1, 2, 3, 4, 5, 6]
    expected = stored_features()

    monkeypatch.setenv("LOOKALIKE_CACHE", str(tmp_path / "parts"))
    config = tiny(*given, f"runs_dir={tmp_path / 'b'}")
    with pytest.raises(KeyboardInterrupt):
        train(config, Listening(stop_at=4))
    assert not list(cache_folder().glob("*.features.npy"))
    rest = Listening()
    train(config, rest)
    assert rest.batches == [5, 6]
    assert torch.equal(stored_features(), expected)
    assert not list(cache_folder().glob("*.partial*"))


def test_a_damaged_part_is_computed_again(tiny, patterns, tmp_path, monkeypatch):
    monkeypatch.setenv("LOOKALIKE_CACHE", str(tmp_path / "cache"))
    config = tiny(*FROZEN, f"data.root={patterns}")
    with pytest.raises(KeyboardInterrupt):
        train(config, Listening(stop_at=2))
    (part,) = cache_folder().glob("*.partial")
    part.write_bytes(b"nothing of the kind")
    again = Listening()
    train(config, again)
    assert again.batches == [1, 2, 3, 4, 5, 6]
