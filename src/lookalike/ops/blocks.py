"""Entries of matrices by index, and large arrays in blocks that the backward pass makes again."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

__all__ = ["gather_pairs", "in_blocks"]

AT_ONCE = 1 << 23
"""Numbers in one array that a step keeps for its backward pass (32 MB in float32)."""


def in_blocks(
    function: Callable[..., Tensor], matrix: Tensor, *lists: Tensor, columns: int
) -> Tensor:
    """``function(matrix, *lists)``, one value or row for each entry of the lists.

    The function makes arrays of so many ``columns`` for each entry. Where these would be large, it
    is called with some entries at a time, and again in the backward pass.

    Args:
        function: The matrix and lists of equal length in; values in the same order out.
        matrix: What it reads.
        *lists: Tensors of one length.
        columns: The width of its arrays.

    Returns:
        The values of all entries.
    """
    size = max(1, AT_ONCE // max(1, columns))
    if len(lists[0]) <= size:
        return function(matrix, *lists)
    parts = zip(*(torch.split(each, size) for each in lists), strict=True)
    blocks = [checkpoint(function, matrix, *part, use_reentrant=False) for part in parts]
    return torch.cat(blocks)


def gather_pairs(matrix: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """``matrix[rows, columns]`` of index tensors that broadcast; its backward pass is a fast one.

    >>> gather_pairs(torch.eye(2), torch.tensor([0, 0]), torch.tensor([0, 1]))
    tensor([1., 0.])
    """
    flat_index = rows * matrix.shape[1] + columns
    return matrix.reshape(-1).index_select(0, flat_index.reshape(-1)).view(flat_index.shape)
