"""Checkpoints written by a thread: a copy of the moment, errors raised, one at a time."""

import errno
import os
import resource
import threading

import pytest
import torch

from lookalike.errors import LookalikeError
from lookalike.files import FAULT
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
    with pytest.raises(LookalikeError, match=r"cannot write '.*file'.*the same command goes on"):
        writer.wait()
    writer.wait()  # raised once
    writer.save({}, {})
    with pytest.raises(LookalikeError, match="cannot write"):
        writer.save({}, {})


@pytest.fixture
def written(tmp_path):
    """A checkpoint and the weights before training."""
    weights = {"model": {"w": torch.arange(50.0)}, "objective": {"proxies": torch.ones(3, 4)}}
    checkpoint.save(tmp_path, weights, {"step": 3})
    checkpoint.save_start(tmp_path, weights["model"])
    return tmp_path


@pytest.mark.parametrize("name", ["model.safetensors", "objective.safetensors", "state.pt"])
def test_a_flipped_bit_is_a_sentence(written, name):
    path = written / "000001" / name
    content = bytearray(path.read_bytes())
    content[-20] ^= 1
    path.write_bytes(content)
    with pytest.raises(LookalikeError, match=f"is damaged: {name} is .*; remove the run's folder"):
        checkpoint.latest(written)


def test_weights_that_are_gone_are_not_passed_over(written):
    (written / "000001" / "objective.safetensors").unlink()
    with pytest.raises(LookalikeError, match=r"objective\.safetensors': No such file") as told:
        checkpoint.latest(written)
    assert "remove" not in str(told.value)


def refuse(*_, **__):
    raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), "state.pt")


def forget(*_, **__):
    raise RuntimeError("storage has\nwrong byte size")


@pytest.mark.parametrize(
    ("fault", "cause"),
    [
        (refuse, "cannot read the checkpoint 'state.pt': Permission denied"),
        (forget, "000001': RuntimeError: storage has wrong byte size"),
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


def test_a_file_that_is_no_part_of_a_checkpoint_does_not_count(written):
    weights, _ = checkpoint.latest(written)
    there = next(written.glob("[0-9]*"))
    (there / "x.safetensors").write_bytes((there / "model.safetensors").read_bytes())
    (there / "y.safetensors").write_bytes(b"damaged")
    found, _ = checkpoint.latest(written)
    assert found.keys() == weights.keys()


def test_a_flipped_bit_of_the_start_is_a_sentence(written):
    assert checkpoint.read_start(written)["w"].tolist() == list(range(50))
    path = written / checkpoint.START
    content = bytearray(path.read_bytes())
    content[-20] ^= 1
    path.write_bytes(content)
    with pytest.raises(LookalikeError, match=r"start\.safetensors' is damaged"):
        checkpoint.read_start(written)


def test_a_start_that_is_gone_is_not_passed_over(written, tmp_path):
    assert checkpoint.read_start(tmp_path / "none") is None
    (written / checkpoint.START).unlink()
    with pytest.raises(LookalikeError, match=r"start\.safetensors': No such file"):
        checkpoint.read_start(written)


def test_a_full_disk_leaves_the_former_checkpoint(written, monkeypatch):
    monkeypatch.setenv(FAULT, "rename:1:full")
    with pytest.raises(LookalikeError, match=r"cannot write.*No space left.*free some space"):
        checkpoint.save(written, {"model": {"w": torch.zeros(2)}}, {"step": 4})
    monkeypatch.delenv(FAULT)
    assert checkpoint.latest(written)[1] == {"step": 3}


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
    weights, state = checkpoint.latest(folder)
    state["progress"]["log_bytes"] = state["progress"].pop("log")
    checkpoint.save(folder, weights, state)
    with pytest.raises(LookalikeError, match="of another version of lookalike; remove the run"):
        train(tiny())
