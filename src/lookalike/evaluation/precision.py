"""Matrix products that mean what they say."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

__all__ = ["full_precision"]


@contextmanager
def full_precision() -> Iterator[None]:
    """Matrix products in true single precision, whatever the program has chosen for training."""
    chosen = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(chosen)
