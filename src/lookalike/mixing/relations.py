"""The relations of anchors to mixed examples: what makes mixing work with every additive loss."""

import torch
from torch import Tensor

from lookalike.distances import Distance, LpDistance
from lookalike.mixing.pairs import Candidates, MixedPairs
from lookalike.ops.rows import without_rounding
from lookalike.relations import Relations

__all__ = [
    "follows_from_cosine",
    "relations_from_cosines",
    "relations_of_anchor_negative",
    "relations_of_rows",
    "spread",
]


def follows_from_cosine(distance: Distance) -> bool:
    """Whether the cosine of two unit vectors tells their distance."""
    if not distance.ordered_by_cosine:
        return False
    return distance.is_inverted or isinstance(distance, LpDistance)


def relations_from_cosines(
    near: Tensor,
    cosine: Tensor,
    share: Tensor,
    rows: Candidates,
    distance: Distance,
    dimension: int,
) -> Relations:
    """Each anchor against all mixes of its own [anchors, most * N], none of them written out.

    ``cos(a, v_ij) = (share s_ai + (1 - share) s_aj) / |v_ij|``, from the cosines ``near`` [anchors,
    N] of anchors and images and ``cosine`` [N, N] among images. Their rounding error grows with the
    dimension.
    """
    of_first, of_second = _scaled_shares(share, cosine)
    mixed = rows.rows_of(of_first) * near.gather(1, rows.first).unsqueeze(2)
    mixed = mixed + rows.rows_of(of_second) * near.unsqueeze(1)
    return Relations(
        _similarity(mixed.flatten(1), distance, dimension),
        rows.rows_of(share).flatten(1),
        rows.valid(cosine.dtype),
    )


def relations_of_anchor_negative(
    near: Tensor, share: Tensor, negatives: Tensor, distance: Distance, dimension: int
) -> Relations:
    """Each anchor against the mixes of itself with its negatives [anchors, N], none written out."""
    of_anchor, of_negative = _scaled_shares(share, near)
    mixed = of_anchor + of_negative * near
    return Relations(_similarity(mixed, distance, dimension), share, negatives.to(near.dtype))


def relations_of_rows(similarity: Tensor, pairs: MixedPairs, rows: Candidates) -> Relations:
    """Each anchor against all mixes of its own [anchors, most * N].

    ``similarity`` [anchors, pairs] is to all pairs of two classes, in the order of ``all_pairs``.
    """
    size = rows.negatives.shape[1]
    number = torch.arange(len(pairs.first), device=similarity.device)
    places = number.new_zeros(size * size)
    places[pairs.first * size + pairs.second] = number
    columns = rows.rows_of(places.view(size, size)).flatten(1)
    return Relations(
        similarity.gather(1, columns),
        pairs.share.to(similarity.dtype)[columns],
        rows.valid(similarity.dtype),
    )


def spread(relations: Relations, places: Tensor, number: int) -> Relations:
    """The rows of some anchors among ``number`` anchors, of which the others have no mixes."""

    def placed(rows: Tensor) -> Tensor:
        return rows.new_zeros(number, rows.shape[1]).index_copy(0, places, rows)

    return Relations(placed(relations.similarity), placed(relations.same), placed(relations.valid))


def _scaled_shares(share: Tensor, cosine: Tensor) -> tuple[Tensor, Tensor]:
    """``share / |v|`` and ``(1 - share) / |v|`` of mixes of unit vectors with these cosines."""
    rest = 1 - share
    squared = share.square() + rest.square() + 2 * share * rest * cosine
    inverse = squared.clamp_min(1e-12).rsqrt()
    return share * inverse, rest * inverse


def _similarity(cosine: Tensor, distance: Distance, dimension: int) -> Tensor:
    """What ``distance`` would say of unit vectors with this cosine."""
    if distance.is_inverted:
        return cosine
    squared = without_rounding(2 - 2 * cosine, 2.0, dimension)
    if distance.power == 2:
        return -squared
    some = squared > 0  # the root has no gradient at 0
    return -torch.where(some, squared.where(some, 1) ** (distance.power / 2), 0)
