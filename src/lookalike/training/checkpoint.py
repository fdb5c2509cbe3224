"""Checkpoints: everything a run needs to resume as if it had never stopped.

A checkpoint is one file, ``checkpoints/last.pt``: weights, optimiser, schedule, sampler, random
states and counters, each part with the checksum that ``torch.save`` gives it. It takes the place of
the former one when it is complete, so a killed process leaves either. Training goes on meanwhile:
everything is copied to memory first, and a thread writes the copy.
"""

import io
import random
import zipfile
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.optim import Optimizer

from lookalike.errors import LookalikeError, WriteFailed
from lookalike.files import atomically, open_regular, refuse_packed
from lookalike.training.distributed.ranks import from_first, on_all_ranks

Weights = dict[str, Tensor]
CheckpointState = dict[str, Any]


def write(path: Path, state: CheckpointState) -> None:
    """Write a checkpoint, or the weights before training, whole or not at all.

    Raises:
        WriteFailed: It cannot be written, as the disk is full; the former one stays.
    """
    with explain_failed_write(path), atomically(path) as draft:
        torch.save(state, draft)


def read(path: Path) -> CheckpointState:
    """What was written, with nothing changed since: nobody would know of a flipped bit."""
    try:
        refuse_packed(path)
        with zipfile.ZipFile(open_regular(path)) as archive:
            if archive.testzip() is not None:
                raise zipfile.BadZipFile
        state: CheckpointState = torch.load(path, weights_only=True, map_location="cpu")
    except zipfile.BadZipFile as error:
        raise LookalikeError(
            f"the checkpoint '{path}' is damaged: it is not as it was written; remove the run's "
            "folder to start again"
        ) from error
    except OSError as error:
        reason = error.strerror or str(error)
        raise LookalikeError(
            f"cannot read the checkpoint '{error.filename or path}': {reason}"
        ) from error
    except MemoryError:
        raise
    except Exception as error:  # the reader raises errors of its own
        reason = " ".join(str(error).split())[:200]
        raise LookalikeError(
            f"cannot read the checkpoint '{path}': {type(error).__name__}: {reason}"
        ) from error
    return state


def read_on_all_ranks(path: Path) -> CheckpointState | None:
    """What the first process reads, in all; each reads the file if it has it."""
    if not from_first(path.is_file):
        return None
    return read(path) if on_all_ranks(path.is_file()) else from_first(lambda: read(path))


class CheckpointWriter:
    """Writes checkpoints in a thread, one at a time.

    Args:
        path: The file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._threads = ThreadPoolExecutor(1, "checkpoint")
        self._writing: Future[None] | None = None

    def save(self, state: CheckpointState) -> None:
        """Copy everything as it is now, and write the copy; waits for the one before."""
        self.wait()
        copy = io.BytesIO()
        torch.save(state, copy)
        self._writing = self._threads.submit(self._write, copy)

    def wait(self) -> None:
        """Wait until the last checkpoint is written; an error of its thread is raised here."""
        writing, self._writing = self._writing, None
        if writing is not None:
            writing.result()

    def _write(self, copy: io.BytesIO) -> None:
        with explain_failed_write(self.path), atomically(self.path) as draft:
            draft.write_bytes(copy.getbuffer())


def save_weights(path: Path, tensors: Weights) -> None:
    """Write tensors as safetensors, whole or not at all, each contiguous and in its own memory."""
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
            f"cannot write '{path}': {reason}; free some space, and the same command resumes from "
            "the last complete checkpoint"
        ) from error


def load_optimizer(optimizer: Optimizer, state: dict[str, Any]) -> None:
    """Give an optimiser its stored state, each tensor in the memory layout of its parameter.

    A fused optimiser goes through memory, whatever the layouts of a weight and its state say.
    """
    optimizer.load_state_dict(state)
    for parameter, values in optimizer.state.items():
        for name, value in values.items():
            if isinstance(value, Tensor) and value.shape == parameter.shape:
                values[name] = torch.empty_like(parameter, dtype=value.dtype).copy_(value)


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
