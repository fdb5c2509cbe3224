"""Large matrices, some rows at a time: near the processor, or within a device's memory."""

import torch

from lookalike.ops.sync import can_sync

__all__ = ["IN_CACHE", "row_blocks", "sweep_size"]

IN_CACHE = 1 << 17
"""Numbers worked on at a time."""
_SWEEP = 1 << 21
"""Numbers that an operation on another device works on at least: fewer cost as much to launch."""


def row_blocks(matrix: torch.Tensor) -> list[slice]:
    """All rows of a matrix, or, where it is a large one on the CPU, as many as stay near it."""
    rows, columns = matrix.shape[0], matrix.shape[1:].numel()
    if matrix.numel() <= 4 * IN_CACHE or not can_sync(matrix):
        return [slice(0, rows)]
    size = max(1, IN_CACHE // columns)
    return [slice(at, min(at + size, rows)) for at in range(0, rows, size)]


def sweep_size(matrix: torch.Tensor) -> int:
    """Numbers of a block, where all triplets of a matrix are gone through on another device.

    Eight times those of the matrix, within bounds.
    """
    return max(_SWEEP, min(8 * matrix.numel(), 8 * _SWEEP))
