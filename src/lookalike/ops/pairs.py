"""Pairs of a matrix, one by one."""

from typing import NamedTuple

import torch
from torch import Tensor

from lookalike.ops.sync import can_sync

__all__ = ["PairList", "at_places", "listed_pairs", "picked"]


class PairList(NamedTuple):
    """Pairs one by one: their row, their place in the flattened matrix, their weight."""

    rows: Tensor
    places: Tensor
    weights: Tensor

    def columns(self, matrix: Tensor) -> Tensor:
        """Their columns in a matrix of this width."""
        return self.places - self.rows * matrix.shape[1]


def listed_pairs(weights: Tensor) -> PairList:
    """The pairs that have a weight, in order.

    On the CPU only those; elsewhere all pairs, so that nothing waits for the device.
    """
    flat = weights.reshape(-1)
    if can_sync(weights):
        places = flat.nonzero().squeeze(1)
        return PairList(
            places.div(weights.shape[1], rounding_mode="floor"),
            places,
            flat.index_select(0, places),
        )
    places = torch.arange(flat.numel(), device=weights.device)
    return PairList(places // weights.shape[1], places, flat)


def at_places(matrix: Tensor, places: Tensor) -> Tensor:
    """The numbers at these places of the flattened matrix; its backward pass is a fast one."""
    return matrix.reshape(-1).index_select(0, places)


def picked(matrix: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """``matrix[rows, columns]``; its backward pass is a fast one."""
    return at_places(matrix, rows * matrix.shape[1] + columns)
