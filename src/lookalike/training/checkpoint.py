"""Checkpoints: everything a run needs to resume as if it had never stopped.

A checkpoint is a folder ``checkpoints/000012`` with the weights as safetensors and the rest
(optimiser, schedule, sampler, random states, counters) in ``state.pt``. It is written under another
name and renamed when complete, so a killed process leaves either the old one or the new one.
Training goes on meanwhile: everything is copied to memory first, and a thread writes the copy.
"""

import os
import random
import re
import shutil
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.optim import Optimizer

from lookalike.errors import LookalikeError, WriteFailed
from lookalike.files import (
    atomically,
    file_checksum,
    read_json,
    refuse_packed,
    write_json,
)
from lookalike.training.distributed.ranks import from_first, on_all_ranks

Weights = dict[str, Tensor]

START = "start.safetensors"
"""The weights before training, written once, beside the checkpoints."""
CHECKSUMS = "checksums.json"
OURS = re.compile(r"\d{6,}|\.draft-\d+")
"""The names of checkpoints, whole and unfinished: only these are removed."""


def save(folder: Path, weights: dict[str, Weights], state: dict[str, Any]) -> None:
    """Write a checkpoint into ``folder``, then delete the older ones.

    Raises:
        WriteFailed: It cannot be written, as the disk is full; the former one stays.
    """
    draft = folder / f".draft-{os.getpid()}"
    with explain_failed_write(folder):
        folder.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir()
        for name, tensors in weights.items():
            save_weights(draft / f"{name}.safetensors", tensors)
        torch.save(state, draft / "state.pt")
        sums = {file.name: file_checksum(file) for file in draft.iterdir()}
        write_json(draft / CHECKSUMS, sums)
        for written in [*draft.iterdir(), draft]:
            handle = os.open(written, os.O_RDONLY)
            os.fsync(handle)
            os.close(handle)
        former = complete(folder)
        final = folder / f"{int(former[-1].name) + 1 if former else 1:06d}"
        draft.rename(final)
        for other in folder.iterdir():
            if OURS.fullmatch(other.name) and other != final:
                shutil.rmtree(other, ignore_errors=True)


class Writer:
    """Writes checkpoints in a thread, one at a time.

    Args:
        folder: Where they go.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._threads = ThreadPoolExecutor(1, "checkpoint")
        self._writing: Future[None] | None = None

    def save(self, weights: dict[str, Weights], state: dict[str, Any]) -> None:
        """Copy everything as it is now, and write the copy; waits for the one before."""
        self.wait()
        copies = copied([weights, state])
        self._writing = self._threads.submit(save, self.folder, *copies)

    def wait(self) -> None:
        """Wait until the last checkpoint is written; an error of its thread is raised here."""
        writing, self._writing = self._writing, None
        if writing is not None:
            writing.result()


def latest(folder: Path) -> tuple[dict[str, Weights], dict[str, Any]] | None:
    """The newest complete checkpoint in ``folder``: its weights by name, and its state."""
    return read(found[-1]) if (found := complete(folder)) else None


def read(checkpoint: Path) -> tuple[dict[str, Weights], dict[str, Any]]:
    """The weights of a checkpoint by name, and its state."""
    with explain_damage(checkpoint):
        names = [name for name in checked_files(checkpoint) if name.endswith(".safetensors")]
        weights = {Path(name).stem: load_file(str(checkpoint / name)) for name in names}
        refuse_packed(checkpoint / "state.pt")
        return weights, torch.load(checkpoint / "state.pt", weights_only=True, map_location="cpu")


def latest_on_all_ranks(folder: Path) -> tuple[dict[str, Weights], dict[str, Any]] | None:
    """What ``latest`` gives the first process, in all: each reads the files if it has them."""
    name = from_first(lambda: found[-1].name if (found := complete(folder)) else None)
    if name is None:
        return None
    if on_all_ranks((folder / name).is_dir()):
        return read(folder / name)
    return from_first(lambda: read(folder / name))


def read_start(folder: Path) -> Weights | None:
    """The weights before training; None if they were not stored."""
    path = folder / START
    known = path.with_suffix(".json")
    if not path.is_file() and not known.is_file():
        return None
    with explain_damage(path):
        if known.is_file() and read_json(known)[START] != file_checksum(path):
            raise ChecksumDiffers(path.name)
        return load_file(str(path))


def checked_files(checkpoint: Path) -> list[str]:
    """The names of the files, each of which must be as it was written; other files do not count.

    A flipped bit would otherwise change the result of the run, and nobody would know. An older
    version wrote no checksums.
    """
    if not (path := checkpoint / CHECKSUMS).is_file():
        return [file.name for file in checkpoint.iterdir()]
    sums = read_json(path)
    for name, known in sums.items():
        if Path(name).name != name or file_checksum(checkpoint / name) != known:
            raise ChecksumDiffers(name)
    return list(sums)


def save_start(folder: Path, tensors: Weights) -> None:
    """Write the weights before training, beside the checkpoints, and their checksum."""
    path = folder / START
    save_weights(path, tensors)
    write_json(path.with_suffix(".json"), {START: file_checksum(path)})


class ChecksumDiffers(Exception):
    """A file is not as it was written."""


@contextmanager
def explain_damage(path: Path) -> Iterator[None]:
    """Say in one sentence why a checkpoint cannot be read; only a damaged one is to be removed."""
    try:
        yield
    except (LookalikeError, MemoryError):
        raise
    except ChecksumDiffers as error:
        raise LookalikeError(
            f"the checkpoint '{path}' is damaged: {error} is not as it was written; remove the "
            "run's folder to start again"
        ) from error
    except OSError as error:
        reason = error.strerror or str(error)
        raise LookalikeError(
            f"cannot read the checkpoint '{error.filename or path}': {reason}"
        ) from error
    except Exception as error:  # the readers raise errors of their own
        reason = " ".join(str(error).split())[:200]
        raise LookalikeError(
            f"cannot read the checkpoint '{path}': {type(error).__name__}: {reason}"
        ) from error


def complete(folder: Path) -> list[Path]:
    """The complete checkpoints, oldest first."""
    return sorted(folder.glob("[0-9]*"))


def save_weights(path: Path, tensors: Weights) -> None:
    """Write tensors as safetensors, each contiguous and in its own memory."""
    plain = {name: t.detach().cpu().contiguous().clone() for name, t in tensors.items()}
    with explain_failed_write(path), atomically(path) as draft:
        save_file(plain, str(draft))


@contextmanager
def explain_failed_write(path: Path) -> Iterator[None]:
    """Turn the exception of a writer, such as for a full disk, into one sentence."""
    try:
        yield
    except (OSError, SafetensorError, RuntimeError) as error:  # torch.save raises the last
        reason = " ".join(str(error).split()) or type(error).__name__
        raise WriteFailed(
            f"cannot write '{path}': {reason}; free some space, and the same command goes on from "
            "the last complete checkpoint"
        ) from error


def load_weights(model: nn.Module, weights: Weights) -> None:
    """Give ``model`` other weights."""
    model.load_state_dict(weights)


def load_optimizer(optimizer: Optimizer, state: dict[str, Any]) -> None:
    """Give an optimiser its stored state, each tensor in the memory layout of its parameter.

    A fused optimiser goes through memory, whatever the layouts of a weight and its state say.
    """
    parameters = [one for group in optimizer.param_groups for one in group["params"]]

    def laid_out(value: Any, parameter: Tensor) -> Any:
        if not isinstance(value, Tensor) or value.shape != parameter.shape:
            return value
        return torch.empty_like(parameter, dtype=value.dtype).copy_(value)

    held = {
        number: {name: laid_out(value, parameters[number]) for name, value in values.items()}
        for number, values in state["state"].items()
    }
    optimizer.load_state_dict(state | {"state": held})


def copied(value: Any) -> Any:
    """The value with all its tensors, dictionaries, lists and tuples, in new memory of the host.

    >>> rows = torch.zeros(2)
    >>> kept = copied({"rows": [rows]})
    >>> _ = rows.add_(1)
    >>> kept
    {'rows': [tensor([0., 0.])]}
    """
    if isinstance(value, Tensor):
        return value.detach().to("cpu", copy=True)
    if isinstance(value, dict):
        return {name: copied(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(copied(part) for part in value)
    return value


@contextmanager
def temporary_weights(model: nn.Module, weights: Weights) -> Iterator[None]:
    """Give ``model`` other weights for the duration of the context."""
    own = {name: t.detach().clone() for name, t in model.state_dict().items()}
    load_weights(model, weights)
    try:
        yield
    finally:
        model.load_state_dict(own)


def random_states() -> dict[str, Any]:
    """The random states of torch, CUDA, NumPy and Python."""
    kind, keys, position, has_gauss, gauss = np.random.get_state(legacy=True)
    version, internal, gauss_next = random.getstate()
    return {
        "torch": torch.get_rng_state(),
        "cuda": [torch.cuda.get_rng_state()] if torch.cuda.is_available() else [],
        "numpy": [str(kind), torch.from_numpy(np.asarray(keys).astype(np.int64)), int(position),
                  int(has_gauss), float(gauss)],
        "python": [version, list(internal), gauss_next],
    }  # fmt: skip


def restore_random(states: dict[str, Any]) -> None:
    """Restore the random states."""
    torch.set_rng_state(states["torch"])
    if states["cuda"] and torch.cuda.is_available():  # of the one device that a process uses
        torch.cuda.set_rng_state(states["cuda"][0])
    kind, keys, position, has_gauss, gauss = states["numpy"]
    np.random.set_state((kind, keys.numpy().astype(np.uint32), position, has_gauss, gauss))
    version, internal, gauss_next = states["python"]
    random.setstate((version, tuple(internal), gauss_next))
