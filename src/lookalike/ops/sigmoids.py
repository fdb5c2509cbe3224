"""Sums over the sigmoids of all differences within a row, in few operations.

On a device other than the CPU an operation costs its launch, so the comparisons of a row are made
many at a time, and each two numbers are compared once: ``sigmoid(-x) = 1 - sigmoid(x)``, and the
slope of the sigmoid is symmetric. A row is cut in halves, which are compared with one another, then
each half in halves again; what is left are short pieces, compared with themselves.
"""

from collections.abc import Iterator

import torch
from torch import Tensor
from torch.nn.functional import pad

from lookalike.ops.blocks import sweep_size

__all__ = ["sigmoid_sums", "slope_sums"]

_LEFT = 4  # blocks, at which the pieces are short enough to be compared with themselves


def sigmoid_sums(values: Tensor, weights: Tensor) -> Tensor:
    """``sum_(k != j) w_ikc sigmoid(v_ik - v_ij)`` [rows, n, c] of ``weights`` [rows, n, c].

    >>> values = torch.tensor([[90.0, 50.0, 10.0]])
    >>> sigmoid_sums(values, torch.ones(1, 3, 1)).flatten()
    tensor([0., 1., 2.])
    """
    depth = _depth(values)
    weights = _padded(weights, depth)
    # sigmoid(v_l - v_r) = 1 - sigmoid(v_r - v_l): the ones are the weights of all pieces before
    by_piece = weights.view(len(weights), 1 << depth, -1, weights.shape[2])
    pieces = by_piece.sum(2)
    before = (pieces.cumsum(1) - pieces).unsqueeze(2)
    start = by_piece.mul(-0.5).add_(before)  # sigmoid(0) where k = j
    return _swept(values, weights, start.flatten(1, 2), depth, slopes=False)


def slope_sums(values: Tensor, vectors: Tensor) -> Tensor:
    """``sum_k x_ikc sigmoid'(v_ik - v_ij)`` [rows, n, c] of ``vectors`` [rows, n, c]."""
    depth = _depth(values)
    vectors = _padded(vectors, depth)
    return _swept(values, vectors, torch.zeros_like(vectors), depth, slopes=True)


def _swept(values: Tensor, vectors: Tensor, sums: Tensor, depth: int, *, slopes: bool) -> Tensor:
    """Adds to ``sums`` what each comparison gives."""
    width = values.shape[1]
    values = _padded(values, depth)
    room = values.new_empty(max(sweep_size(values), values.shape[1]))
    length = values.shape[1]
    for _ in range(depth):
        length //= 2
        halves = (_halves(each, length, room) for each in (values, vectors, sums))
        for (left, right), (of_left, of_right), (to_left, to_right) in zip(*halves, strict=True):
            parts = (_columns(each, room) for each in (left, of_left, to_left))
            for near, of_near, to_near in zip(*parts, strict=True):
                found = _compared(near, right, room, slopes=slopes)
                to_near.baddbmm_(found, of_right)
                to_right.baddbmm_(found.mT, of_near, alpha=1 if slopes else -1)
    pieces = (_pieces(each, length, room) for each in (values, vectors, sums))
    for piece, of_piece, to_piece in zip(*pieces, strict=True):
        for near, to_near in zip(_columns(piece, room), _columns(to_piece, room), strict=True):
            to_near.baddbmm_(_compared(near, piece, room, slopes=slopes), of_piece)
    return sums[:, :width]


def _compared(left: Tensor, right: Tensor, room: Tensor, *, slopes: bool) -> Tensor:
    """``sigmoid(right_k - left_j)`` [pieces, j, k], or its slope, written to ``room``."""
    shape = len(left), left.shape[1], right.shape[1]
    found = room[: shape[0] * shape[1] * shape[2]].view(shape)
    torch.sub(right.unsqueeze(1), left.unsqueeze(2), out=found).sigmoid_()
    return found.addcmul_(found, found, value=-1) if slopes else found


def _depth(values: Tensor) -> int:
    """How often rows are halved."""
    left, depth = values.numel() * values.shape[1], 0
    while left > _LEFT * sweep_size(values):
        left, depth = left // 2, depth + 1
    return depth


def _padded(matrix: Tensor, depth: int) -> Tensor:
    """With columns of 0, so that rows can be halved so often."""
    missing = -matrix.shape[1] % (1 << depth)
    if missing:
        matrix = pad(matrix, (0, 0) * (matrix.ndim - 2) + (0, missing))
    return matrix.contiguous()


def _halves(matrix: Tensor, length: int, room: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """The two halves of pieces of twice ``length``, some pieces at a time."""
    size = max(1, room.numel() // length**2)
    left, right = matrix.view(-1, 2, length, *matrix.shape[2:]).unbind(1)
    return zip(torch.split(left, size), torch.split(right, size), strict=True)


def _pieces(matrix: Tensor, length: int, room: Tensor) -> tuple[Tensor, ...]:
    """Pieces of ``length``, some at a time."""
    size = max(1, room.numel() // length**2)
    return torch.split(matrix.view(-1, length, *matrix.shape[2:]), size)


def _columns(pieces: Tensor, room: Tensor) -> tuple[Tensor, ...]:
    """All columns of some pieces, or some at a time where one piece is too long for the room."""
    return torch.split(pieces, max(1, room.numel() // (len(pieces) * pieces.shape[1])), 1)
