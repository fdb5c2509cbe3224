"""Similarities to all mixes of a batch's embeddings, none of which is written out.

The one closed form of mixing: with all negatives a batch of N images has about ``N^2`` mixes, so
that written out they are ``N^2 D`` numbers, and their similarities to all anchors ``N^3``; an
anchor's own are ``N`` times the images per class.
"""

import torch
from torch import Tensor

from lookalike.distances import Distance, LpDistance
from lookalike.ops.rows import without_rounding

__all__ = ["cosines_to_mixes", "follows_from_cosine", "rows_of", "similarity_of_cosine"]


def follows_from_cosine(distance: Distance) -> bool:
    """Whether the cosine of two unit vectors tells their distance."""
    if not distance.ordered_by_cosine:
        return False
    return distance.is_inverted or isinstance(distance, LpDistance)


def cosines_to_mixes(
    to_first: Tensor, to_second: Tensor, first: Tensor, between: Tensor, share: Tensor
) -> Tensor:
    """``cos(a, v) = (y cos(a, x) + (1 - y) cos(a, z)) / |v|`` of ``v = y x + (1 - y) z``.

    Args:
        to_first: [A, F] the cosines of each anchor a and what comes first in its mixes.
        to_second: [A, N] the cosines of each anchor and the images z.
        first: [A, F] which x of the table come first in the mixes of each anchor.
        between: [T, N] the cosines of the x of a table and the images z.
        share: [T, N] how much of x is in each mix.

    Returns:
        [A, F * N].
    """
    rest = 1 - share
    squared = share.square() + rest.square() + 2 * share * rest * between
    inverse = squared.clamp_min(1e-12).rsqrt()
    of_first, of_second = rows_of(share * inverse, first), rows_of(rest * inverse, first)
    return (of_first * to_first.unsqueeze(2) + of_second * to_second.unsqueeze(1)).flatten(1)


def rows_of(table: Tensor, first: Tensor) -> Tensor:
    """[A, F, N] the rows of a table [T, N] by their numbers [A, F]."""
    return table.index_select(0, first.reshape(-1)).view(*first.shape, table.shape[1])


def similarity_of_cosine(cosine: Tensor, distance: Distance, dimension: int) -> Tensor:
    """What ``distance`` says of unit vectors with this cosine, which is off by rounding."""
    if distance.is_inverted:
        return cosine
    squared = without_rounding(2 - 2 * cosine, 2.0, dimension)
    if distance.power == 2:
        return -squared
    some = squared > 0  # the root has no gradient at 0
    return -torch.where(some, squared.where(some, 1) ** (distance.power / 2), 0)
