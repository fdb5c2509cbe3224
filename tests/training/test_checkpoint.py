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
from lookalike.training import checkpoint, train
from lookalike.training.signals import Interrupted


def test_the_copy_is_of_the_moment(tmp_path, monkeypatch):
    """Weights and state that change while the thread writes are stored as they were."""
    changed, write = threading.Event(), checkpoint.save

    def later(*arguments):
        assert changed.wait(60)
        write(*arguments)

    monkeypatch.setattr(checkpoint, "save", later)
    weights, progress = torch.zeros(3), {"step": 1, "scores": [0.5]}
    writer = checkpoint.CheckpointWriter(tmp_path)
    writer.save({"model": {"w": weights}, "progress": progress, "m": (weights,)})
    weights += 1
    progress["step"] = 2
    progress["scores"].append(0.7)
    changed.set()
    writer.wait()
    state = checkpoint.latest(tmp_path)
    assert not state["model"]["w"].any()
    assert state["progress"] == {"step": 1, "scores": [0.5]}
    assert not state["m"][0].any()


def test_one_after_the_other(tmp_path):
    writer = checkpoint.CheckpointWriter(tmp_path)
    for step in range(5):
        writer.save({"model": {"w": torch.full((2,), float(step))}, "step": step})
    writer.wait()
    assert [path.name[:7] for path in tmp_path.iterdir()] == ["000005-"]
    state = checkpoint.latest_on_all_ranks(tmp_path)
    assert state["step"] == 4
    assert state["model"]["w"].tolist() == [4, 4]


def test_an_error_of_the_thread_is_raised(tmp_path):
    occupied = tmp_path / "file"
    occupied.write_text("no folder")
    writer = checkpoint.CheckpointWriter(occupied)
    writer.save({})
    with pytest.raises(LookalikeError, match=r"cannot write '.*file'.*the same command resumes"):
        writer.wait()
    writer.wait()  # raised once
    writer.save({})
    with pytest.raises(LookalikeError, match="cannot write"):
        writer.save({})


@pytest.fixture
def written(tmp_path):
    """A checkpoint and the weights before training."""
    weights = {"w": torch.arange(50.0)}
    checkpoint.save(tmp_path, {"model": weights, "step": 3})
    checkpoint.save_start(tmp_path, weights)
    return tmp_path


@pytest.mark.parametrize("pattern", ["000001-*.pt", "start-*.safetensors"])
def test_a_flipped_bit_is_a_sentence(written, pattern):
    (path,) = written.glob(pattern)
    assert checkpoint.read(path)
    content = bytearray(path.read_bytes())
    content[-20] ^= 1
    path.write_bytes(content)
    with pytest.raises(LookalikeError, match=f"'{path}' is damaged.*; remove the run's folder"):
        checkpoint.read(path)


def test_weights_that_are_gone_are_not_passed_over(tiny, stops_at):
    settings = ("protocol.test_untrained=true",)
    with pytest.raises(Interrupted):
        train(tiny(*settings), stops_at(10))
    (start,) = tiny().runs_dir.glob("*/checkpoints/start-*.safetensors")
    start.unlink()
    with pytest.raises(LookalikeError, match=r"start-.*\.safetensors': No such file") as told:
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
        (forget, r"000001-.*\.pt': RuntimeError: storage has wrong byte size"),
    ],
)
def test_another_cause_is_said_and_nothing_is_to_be_removed(written, monkeypatch, fault, cause):
    monkeypatch.setattr(torch, "load", fault)  # root may read everything
    with pytest.raises(LookalikeError, match=cause) as told:
        checkpoint.latest(written)
    assert "remove" not in str(told.value)


def test_lack_of_memory_is_no_damage(written, monkeypatch):
    def full(*_, **__):
        raise MemoryError

    monkeypatch.setattr(torch, "load", full)
    with pytest.raises(MemoryError):
        checkpoint.latest(written)


def test_an_unfinished_file_does_not_count(written):
    (written / ".draft-000002.pt").write_bytes(b"half")
    assert checkpoint.latest(written)["step"] == 3


def test_a_full_disk_leaves_the_former_checkpoint(written, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "rename", full)
    with pytest.raises(LookalikeError, match=r"cannot write.*No space left.*free some space"):
        checkpoint.save(written, {"model": {"w": torch.zeros(2)}, "step": 4})
    monkeypatch.undo()
    assert checkpoint.latest(written)["step"] == 3
    assert not list(written.glob(".draft*"))


@pytest.mark.parametrize("name", ["2024-best.pt", "1st.pt", "999999.pt", "000009-1f3c5a7.pt"])
def test_other_files_beside_checkpoints_are_neither_read_nor_removed(tmp_path, name):
    (tmp_path / name).write_bytes(b"mine")
    assert checkpoint.latest(tmp_path) is None
    checkpoint.save(tmp_path, {"step": 1})
    checkpoint.save(tmp_path, {"step": 2})
    assert checkpoint.latest(tmp_path) == {"step": 2}
    assert (tmp_path / name).read_bytes() == b"mine"
    assert len(list(tmp_path.iterdir())) == 2


def test_no_checkpoint(tmp_path):
    assert checkpoint.latest_on_all_ranks(tmp_path) is None


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
    assert list((tmp_path / "runs").glob("*/checkpoints/[0-9]*"))
    assert train(tiny()).result == whole.result


def test_a_full_disk_before_the_first_step(tiny):
    former = resource.getrlimit(resource.RLIMIT_FSIZE)

    class Full(Watcher):
        def note(self, text):
            resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, former[1]))

    try:
        with pytest.raises(LookalikeError, match=r"cannot write .*start\.safetensors"):
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


def test_a_checkpoint_of_another_version_is_a_sentence(tiny, stops_at, tmp_path):
    with pytest.raises(Interrupted):
        train(tiny(), stops_at(10))
    (folder,) = (tmp_path / "runs").glob("*/checkpoints")
    state = checkpoint.latest(folder)
    state["progress"]["log_bytes"] = state["progress"].pop("log")
    checkpoint.save(folder, state)
    with pytest.raises(LookalikeError, match="of another version of lookalike; remove the run"):
        train(tiny())


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
    ],
)
def test_a_checkpoint_of_a_stranger_with_another_content_is_a_sentence(
    tiny, stops_at, tmp_path, name, value
):
    """Its checksum is right."""
    with pytest.raises(Interrupted):
        train(tiny(), stops_at(10))
    (folder,) = (tmp_path / "runs").glob("*/checkpoints")
    checkpoint.save(folder, checkpoint.latest(folder) | {name: value})
    with pytest.raises(LookalikeError, match="of another version of lookalike; remove the run"):
        train(tiny())
