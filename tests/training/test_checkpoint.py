"""Checkpoints written by a thread: a copy of the moment, errors raised, one at a time."""

import threading

import pytest
import torch

from lookalike.training import checkpoint


def test_the_copy_is_of_the_moment(tmp_path, monkeypatch):
    """Weights and state that change while the thread writes are stored as they were."""
    changed, write = threading.Event(), checkpoint.save

    def later(*arguments):
        assert changed.wait(60)
        write(*arguments)

    monkeypatch.setattr(checkpoint, "save", later)
    weights, progress = torch.zeros(3), {"step": 1, "scores": [0.5]}
    writer = checkpoint.Writer(tmp_path)
    writer.save({"model": {"w": weights}}, {"progress": progress, "m": (weights,)})
    weights += 1
    progress["step"] = 2
    progress["scores"].append(0.7)
    changed.set()
    writer.wait()
    stored, state = checkpoint.latest(tmp_path)
    assert not stored["model"]["w"].any()
    assert state["progress"] == {"step": 1, "scores": [0.5]}
    assert not state["m"][0].any()


def test_one_after_the_other(tmp_path):
    writer = checkpoint.Writer(tmp_path)
    for step in range(5):
        writer.save({"model": {"w": torch.full((2,), float(step))}}, {"step": step})
    writer.wait()
    assert [path.name for path in checkpoint.complete(tmp_path)] == ["000005"]
    stored, state = checkpoint.latest_on_all_ranks(tmp_path)
    assert state == {"step": 4}
    assert stored["model"]["w"].tolist() == [4, 4]


def test_an_error_of_the_thread_is_raised(tmp_path):
    occupied = tmp_path / "file"
    occupied.write_text("no folder")
    writer = checkpoint.Writer(occupied)
    writer.save({}, {})
    with pytest.raises(FileExistsError):
        writer.wait()
    writer.wait()  # raised once
    writer.save({}, {})
    with pytest.raises(FileExistsError):
        writer.save({}, {})


def test_no_checkpoint(tmp_path):
    assert checkpoint.latest_on_all_ranks(tmp_path) is None
