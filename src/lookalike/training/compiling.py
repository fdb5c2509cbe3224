"""``train.compile``: what to compile, and one sentence where the compiler fails."""

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn

from lookalike.errors import LookalikeError
from lookalike.models import EmbeddingModel

__all__ = ["compile_parts", "telling_of_failed_compilers"]

COMPILER = ("torch._dynamo.", "torch._inductor.")
"""Where torch defines what its compiler raises; there is no public name for it."""


def compile_parts(model: EmbeddingModel, objective: nn.Module, *, frozen: bool) -> None:
    """Compile the network, or of a frozen one the head with its loss."""
    (objective if frozen else model.backbone).compile()


@contextmanager
def telling_of_failed_compilers() -> Iterator[None]:
    """Turn the failure of torch's compiler, or of the C++ compiler it calls, into one sentence."""
    try:
        yield
    except RuntimeError as error:
        if not f"{type(error).__module__}.".startswith(COMPILER):
            raise
        reason = str(error).strip().partition("\n")[0]
        raise LookalikeError(
            f"train.compile=true: the compiler failed ({reason}); the same command without "
            "train.compile trains the same model"
        ) from error
