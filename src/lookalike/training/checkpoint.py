"""Checkpoints: everything a run needs to resume as if it had never stopped.

A checkpoint is one file, ``checkpoints/000012-1f3c5a77.pt``: weights, optimiser, schedule, sampler,
random states and counters. The second half of its name is its checksum. It is written under another
name and renamed when complete, so a killed process leaves either the old one or the new one.
Training goes on meanwhile: everything is copied to memory first, and a thread writes the copy.
"""

import os
import random
import re
from collections.abc import Callable, Iterator
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
from lookalike.files import atomically, file_checksum, refuse_packed
from lookalike.training.distributed.ranks import from_first, on_all_ranks

Weights = dict[str, Tensor]
CheckpointState = dict[str, Any]
NAME = re.compile(r"[0-9]{6}-[0-9a-f]{8}\.pt")
"""The names of checkpoints; nothing else is read as one, or deleted."""


def save(folder: Path, state: CheckpointState) -> None:
    """Write a checkpoint into ``folder``, then delete the older ones.

    Raises:
        WriteFailed: It cannot be written, as the disk is full; the former one stays.
    """
    former = complete(folder)
    number = int(former[-1].name[:6]) + 1 if former else 1
    write_named(folder, f"{number:06d}", ".pt", lambda path: torch.save(state, path))
    for path in former:
        path.unlink(missing_ok=True)


def save_start(folder: Path, weights: Weights) -> str:
    """Write the weights before training, beside the checkpoints; the name of the file."""
    return write_named(folder, "start", ".safetensors", lambda path: write_tensors(path, weights))


def write_named(folder: Path, name: str, suffix: str, write: Callable[[Path], object]) -> str:
    """Let ``write`` make a file, which is then called ``<name>-<its checksum><suffix>``."""
    draft = folder / f".draft-{name}{suffix}"
    with explain_failed_write(folder / f"{name}{suffix}"):
        folder.mkdir(parents=True, exist_ok=True)
        try:
            write(draft)
            with draft.open("rb") as written:
                os.fsync(written.fileno())
            path = folder / f"{name}-{file_checksum(draft)}{suffix}"
            draft.rename(path)
        finally:
            draft.unlink(missing_ok=True)
    return path.name


def latest(folder: Path) -> CheckpointState | None:
    """The newest complete checkpoint in ``folder``."""
    return read(found[-1]) if (found := complete(folder)) else None


def latest_on_all_ranks(folder: Path) -> CheckpointState | None:
    """What ``latest`` gives the first process, in all: each reads the file if it has it."""
    name = from_first(lambda: found[-1].name if (found := complete(folder)) else None)
    if name is None:
        return None
    if on_all_ranks((folder / name).is_file()):
        return read(folder / name)
    return from_first(lambda: read(folder / name))


def read(path: Path) -> CheckpointState:
    """The content of a checkpoint, or of the file of the weights before training.

    A flipped bit would change the result of the run, and nobody would know, so the file is compared
    with the checksum in its name.
    """
    with explain_failed_read(path):
        if path.stem.rpartition("-")[2] != file_checksum(path):
            raise LookalikeError(
                f"the checkpoint '{path}' is damaged: it is not as it was written; remove the "
                "run's folder to start again"
            )
        if path.suffix == ".safetensors":
            return load_file(path)
        refuse_packed(path)
        state: CheckpointState = torch.load(path, weights_only=True, map_location="cpu")
        return state


def complete(folder: Path) -> list[Path]:
    """The complete checkpoints, oldest first."""
    return sorted(path for path in folder.glob("*.pt") if NAME.fullmatch(path.name))


class CheckpointWriter:
    """Writes checkpoints in a thread, one at a time.

    Args:
        folder: Where they go.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._threads = ThreadPoolExecutor(1, "checkpoint")
        self._writing: Future[None] | None = None

    def save(self, state: CheckpointState) -> None:
        """Copy everything as it is now, and write the copy; waits for the one before."""
        self.wait()
        self._writing = self._threads.submit(save, self.folder, copied(state))

    def wait(self) -> None:
        """Wait until the last checkpoint is written; an error of its thread is raised here."""
        writing, self._writing = self._writing, None
        if writing is not None:
            writing.result()


@contextmanager
def explain_failed_read(path: Path) -> Iterator[None]:
    """Say in one sentence why a checkpoint cannot be read; only a damaged one is to be removed."""
    try:
        yield
    except (LookalikeError, MemoryError):
        raise
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


def save_weights(path: Path, tensors: Weights) -> None:
    """Write tensors as safetensors, whole or not at all."""
    with explain_failed_write(path), atomically(path) as draft:
        write_tensors(draft, tensors)


def write_tensors(path: Path, tensors: Weights) -> None:
    """Write tensors as safetensors, each contiguous and in its own memory."""
    plain = {name: t.detach().cpu().contiguous().clone() for name, t in tensors.items()}
    save_file(plain, str(path))


@contextmanager
def explain_failed_write(path: Path) -> Iterator[None]:
    """Turn the exception of a writer, such as for a full disk, into one sentence."""
    try:
        yield
    except (OSError, SafetensorError, RuntimeError) as error:  # torch.save raises the last
        reason = " ".join(str(error).split()) or type(error).__name__
        raise WriteFailed(
            f"cannot write '{path}': {reason}; free some space, and the same command resumes from "
            "the last complete checkpoint"
        ) from error


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
    model.load_state_dict(weights)
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
