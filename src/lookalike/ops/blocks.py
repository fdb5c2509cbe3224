"""Large matrices, some rows at a time, so that the numbers stay near the processor."""

import torch

__all__ = ["IN_CACHE", "row_blocks"]

IN_CACHE = 1 << 17
"""Numbers worked on at a time."""


def row_blocks(rows: int, columns: int) -> list[slice]:
    """All rows of such a matrix, or, where it is large, as many as stay near the processor."""
    if rows * columns <= 4 * IN_CACHE or torch.compiler.is_compiling():
        return [slice(0, rows)]
    size = max(1, IN_CACHE // columns)
    return [slice(at, min(at + size, rows)) for at in range(0, rows, size)]
