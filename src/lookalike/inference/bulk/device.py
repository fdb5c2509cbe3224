"""The device that computes vectors, and its precision."""

import copy
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Literal

import torch
from torch import Tensor

from lookalike.errors import BadInput
from lookalike.inference.embedder import Embedder
from lookalike.inference.encoder import Encoder, Vectors
from lookalike.ops.device import keep_freed_memory

__all__ = ["Device", "Precision"]

Precision = Literal["32-true", "bf16-mixed", "16-mixed"]
_HALF = {"bf16-mixed": torch.bfloat16, "16-mixed": torch.float16}


class Device:
    """Turns prepared pictures into vectors on a device, in the precisions of ``train.precision``.

    Args:
        encoder: The model; on another device than the CPU a copy of it computes.
        device: ``cpu``, ``cuda``, ``mps``, one of several as ``cuda:1``, or ``auto``: the best that
            there is.
        precision: ``32-true``; ``bf16-mixed`` or ``16-mixed``: autocast.

    Raises:
        BadInput: There is no such device, or it does not have the precision.
    """

    def __init__(
        self, encoder: Encoder, device: str = "auto", precision: Precision = "32-true"
    ) -> None:
        on_cpu = not isinstance(encoder, Embedder)
        self.device = torch.device("cpu") if on_cpu and device == "auto" else device_named(device)
        self.precision: Precision = precision
        if precision not in ("32-true", *_HALF):
            raise BadInput(f"--precision {precision} is invalid: give 32-true, {', '.join(_HALF)}")
        if precision == "16-mixed" and self.device.type == "cpu":
            raise BadInput("--precision 16-mixed needs a GPU; on a CPU use bf16-mixed")
        if self.device.type == "cpu":
            keep_freed_memory()
        self.encoder = encoder
        if isinstance(encoder, Embedder) and self.device.type != "cpu":
            self.encoder = there = copy.copy(encoder)
            there.model = copy.deepcopy(encoder.model).to(self.device)
        elif self.device.type != "cpu":
            raise BadInput("a model of ONNX computes on the CPU only")

    def assemble(self, pixels: Sequence[Tensor]) -> Tensor:
        """A batch of prepared pictures; for another device than the CPU its bytes."""
        if self.device.type == "cpu":
            return self.encoder.batch(pixels)
        batch = self.encoder.preset.centre(pixels)
        return batch.pin_memory() if self.device.type == "cuda" else batch

    def embed(self, batch: Tensor) -> Vectors:
        """The unit vectors of a batch."""
        if self.device.type != "cpu":
            moved = batch.to(self.device, non_blocking=True)
            batch = self.encoder.normalisation(moved, torch.channels_last)
        with self._autocast():
            return self.encoder.embed_batch(batch)

    def _autocast(self) -> AbstractContextManager[Any]:
        if self.precision == "32-true":
            return nullcontext()
        return torch.autocast(self.device.type, _HALF[self.precision])


def device_named(name: str) -> torch.device:
    """The device of a name, as ``train.device`` has it."""
    if name == "auto":
        if torch.cuda.is_available():
            return torch.device("cuda")
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
    try:
        device = torch.device("cuda" if name == "gpu" else name)
        if device.type not in ("cpu", "cuda", "mps"):
            raise RuntimeError("give auto, cpu, cuda or mps")
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).partition("\n")[0]
        raise BadInput(f"--device {name} cannot be used: {reason}") from error
    return device
