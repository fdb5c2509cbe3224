"""Checkpoints written by a thread: a copy of the moment, errors raised, one at a time."""

import errno
import os
import resource
import threading
from pathlib import Path

import pytest
import torch

from lookalike.errors import LookalikeError
from lookalike.progress import Watcher
from lookalike.signals import Interrupted
from lookalike.training import checkpoint, train


def test_the_copy_is_of_the_moment(tmp_path, monkeypatch):
    """Weights and state that change while the thread writes are stored as they were."""
    changed, atomically = threading.Event(), checkpoint.atomically

    def later(path):
        assert changed.wait(60)
        return atomically(path)

    monkeypatch.setattr(checkpoint, "atomically", later)
    weights, progress = torch.zeros(3), {"step": 1, "scores": [0.5]}
    path = tmp_path / "last.pt"
    writer = checkpoint.CheckpointWriter(path)
    writer.save({"model": {"w": weights}, "progress": progress, "m": (weights,)})
    weights += 1
    progress["step"] = 2
    progress["scores"].append(0.7)
    changed.set()
    writer.wait()
    state = checkpoint.read(path)
    assert not state["model"]["w"].any()
    assert state["progress"] == {"step": 1, "scores": [0.5]}
    assert not state["m"][0].any()


def test_the_last_one_takes_the_place_of_the_former(tmp_path):
    path = tmp_path / "last.pt"
    assert checkpoint.read_on_all_ranks(path) is None
    writer = checkpoint.CheckpointWriter(path)
    for step in range(5):
        writer.save({"model": {"w": torch.full((2,), float(step))}, "step": step})
    writer.wait()
    assert list(tmp_path.iterdir()) == [path]
    state = checkpoint.read_on_all_ranks(path)
    assert state["step"] == 4
    assert state["model"]["w"].tolist() == [4, 4]


def test_an_error_of_the_thread_is_raised(tmp_path):
    occupied = tmp_path / "file"
    occupied.write_text("no folder")
    writer = checkpoint.CheckpointWriter(occupied / "last.pt")
    writer.save({})
    with pytest.raises(LookalikeError, match=r"cannot write '.*file.*the same command resumes"):
        writer.wait()
    writer.wait()  # raised once
    writer.save({})
    with pytest.raises(LookalikeError, match="cannot write"):
        writer.save({})


@pytest.fixture
def written(tmp_path):
    """A checkpoint."""
    path = tmp_path / "last.pt"
    checkpoint.write(path, {"model": {"w": torch.arange(50.0)}, "step": 3})
    return path


def test_a_flipped_bit_of_its_content_is_a_sentence(written):
    content = bytearray(written.read_bytes())
    start = content.index(torch.arange(50.0).numpy().tobytes())
    content[start + 77] ^= 1
    written.write_bytes(content)
    with pytest.raises(LookalikeError, match=f"'{written}' is damaged.*; remove the run's folder"):
        checkpoint.read(written)


@pytest.mark.parametrize("share", [0, 0.5, 0.99])
def test_a_cut_file_is_a_sentence(written, share):
    content = written.read_bytes()
    written.write_bytes(content[: int(share * len(content))])
    with pytest.raises(LookalikeError, match="is damaged"):
        checkpoint.read(written)


def test_weights_that_are_gone_are_not_passed_over(tiny, stops_at):
    settings = ("protocol.test_untrained=true",)
    with pytest.raises(Interrupted):
        train(tiny(*settings), stops_at(10))
    (start,) = tiny().runs_dir.glob("*/checkpoints/start.pt")
    start.unlink()
    with pytest.raises(LookalikeError, match=r"start\.pt': No such file") as told:
        train(tiny(*settings))
    assert "remove" not in str(told.value)


def refuse(*_, **__):
    raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), "000001.pt")


def forget(*_, **__):
    raise RuntimeError("storage has\nwrong byte size")


@pytest.mark.parametrize(
    ("fault", "cause"),
    [
        (refuse, "cannot read the checkpoint '000001.pt': Permission denied"),
        (forget, r"last\.pt': RuntimeError: storage has wrong byte size"),
    ],
)
def test_another_cause_is_said_and_nothing_is_to_be_removed(written, monkeypatch, fault, cause):
    monkeypatch.setattr(torch, "load", fault)  # root may read everything
    with pytest.raises(LookalikeError, match=cause) as told:
        checkpoint.read(written)
    assert "remove" not in str(told.value)


def test_lack_of_memory_is_no_damage(written, monkeypatch):
    def full(*_, **__):
        raise MemoryError

    monkeypatch.setattr(torch, "load", full)
    with pytest.raises(MemoryError):
        checkpoint.read(written)


def test_a_full_disk_leaves_the_former_checkpoint(written, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(LookalikeError, match=r"cannot write.*No space left.*free some space"):
        checkpoint.write(written, {"model": {"w": torch.zeros(2)}, "step": 4})
    monkeypatch.undo()
    assert checkpoint.read(written)["step"] == 3
    assert list(written.parent.iterdir()) == [written]


class FullDisk(Watcher):
    """No file of this process may grow above 20 kB once training has come to a step."""

    def __init__(self, step):
        self.at = step

    def stage(self, name, done, total, detail=""):
        if name == "training" and done >= self.at:
            _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
            resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, hard))


def test_a_full_disk_ends_a_run_in_one_sentence_and_it_resumes(tiny, tmp_path):
    former = resource.getrlimit(resource.RLIMIT_FSIZE)
    whole = train(tiny(f"runs_dir={tmp_path / 'whole'}"))
    try:
        with pytest.raises(LookalikeError, match=r"cannot write .*; free some space") as caught:
            train(tiny(), FullDisk(5))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, former)
    assert "\n" not in str(caught.value)
    assert list((tmp_path / "runs").glob("*/checkpoints/last.pt"))
    assert train(tiny()).result == whole.result


def test_a_full_disk_before_the_first_step(tiny):
    former = resource.getrlimit(resource.RLIMIT_FSIZE)

    class Full(Watcher):
        def note(self, text):
            resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, former[1]))

    try:
        with pytest.raises(LookalikeError, match=r"cannot write .*start\.pt"):
            train(tiny("protocol.test_untrained=true"), Full())
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, former)


@pytest.mark.parametrize("damage", ["flip", "cut", "remove"])
def test_the_log_of_an_unfinished_run_is_as_the_checkpoint_has_it(tiny, stops_at, tmp_path, damage):
    whole = train(tiny(f"runs_dir={tmp_path / 'whole'}"))
    with pytest.raises(Interrupted):
        train(tiny(), stops_at(14))
    (log,) = (tmp_path / "runs").glob("*/metrics.jsonl")
    content = bytearray(log.read_bytes())
    content[len(content) // 2] ^= 0x80
    if damage == "flip":
        log.write_bytes(content)
    elif damage == "cut":
        log.write_bytes(content[:20])
    else:
        log.unlink()
    assert train(tiny()).epochs() == whole.epochs()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("optimizer", {}),
        ("optimizer", 5),
        ("model", {}),
        ("schedule", {"a": 1}),
        ("batches", {"a": 1}),
        ("random", {}),
        ("progress", 5),
        ("progress", {"step": 1}),
    ],
)
def test_a_checkpoint_with_another_content_is_a_sentence(tiny, stops_at, tmp_path, name, value):
    """Of another version, or of a stranger."""
    with pytest.raises(Interrupted):
        train(tiny(), stops_at(10))
    (path,) = (tmp_path / "runs").glob("*/checkpoints/last.pt")
    checkpoint.write(path, checkpoint.read(path) | {name: value})
    with pytest.raises(LookalikeError, match="of another version of lookalike; remove the run"):
        train(tiny())
