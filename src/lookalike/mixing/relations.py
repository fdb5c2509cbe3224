"""The relations of anchors to mixed examples: what makes mixing work with every additive loss."""

import torch
from torch import Tensor

from lookalike.distances import Distance, LpDistance
from lookalike.mixing.pairs import Kind, MixedPairs, partners, serves
from lookalike.relations import Relations

__all__ = ["follows_from_cosine", "relations_from_cosines", "relations_to_mixes"]


def relations_to_mixes(
    anchors: Tensor,
    labels: Tensor,
    mixes: Tensor,
    pairs: MixedPairs,
    kind: Kind,
    distance: Distance,
    *,
    between: bool = False,
) -> Relations:
    """Every anchor against every mix; ``same = share same_first + (1 - share) same_second``."""
    similarity = distance.similarity(anchors, mixes)
    alike = (labels.unsqueeze(1) == labels).to(similarity.dtype)
    same = torch.lerp(
        alike.index_select(1, pairs.second),
        alike.index_select(1, pairs.first),
        pairs.share.to(similarity.dtype),
    )
    valid = serves(alike, pairs.first, kind)
    return Relations(similarity, same, valid, distance.similarity(mixes) if between else None)


def follows_from_cosine(distance: Distance) -> bool:
    """Whether the cosine of two unit vectors tells their distance."""
    if not distance.ordered_by_cosine:
        return False
    return distance.is_inverted or isinstance(distance, LpDistance)


def relations_from_cosines(
    cosine: Tensor, labels: Tensor, share: Tensor, kind: Kind, distance: Distance
) -> Relations | None:
    """Each anchor against all mixes of its own, none of them written out; None if there are none.

    ``cos(a, v_ij) = (share s_ai + (1 - share) s_aj) / |v_ij|`` with ``|v_ij|^2 = share^2 + (1 -
    share)^2 + 2 share (1 - share) s_ij``. ``share`` is [N, N]. A row lists the mixes of one
    anchor: its partners i times all j, not those of other classes.
    """
    size = cosine.shape[0]
    first, there = (part.to(cosine.device) for part in partners(labels, kind))
    other = (labels.unsqueeze(1) != labels).to(cosine.device, cosine.dtype)
    most = first.shape[1]
    if most == 0:
        return None
    own = cosine.diagonal()  # 1, but 0 for a zero vector
    rest = 1 - share
    squared = share.square() * own.unsqueeze(1) + rest.square() * own + 2 * share * rest * cosine
    inverse = squared.clamp_min(1e-12).rsqrt()
    rows = first.reshape(-1)

    def of_partners(matrix: Tensor) -> Tensor:
        return matrix.index_select(0, rows).view(size, most, size)

    near_first = cosine.gather(1, first).unsqueeze(2)
    mixed = of_partners(share * inverse) * near_first
    mixed = mixed + of_partners(rest * inverse) * cosine.unsqueeze(1)
    valid = there.to(cosine.dtype).unsqueeze(2) * other.unsqueeze(1)
    return Relations(
        _similarity(mixed.view(size, -1), distance),
        of_partners(share).view(size, -1),
        valid.view(size, -1),
    )


def _similarity(cosine: Tensor, distance: Distance) -> Tensor:
    """What ``distance`` would say of unit vectors with this cosine."""
    if distance.is_inverted:
        return cosine
    squared = (2 - 2 * cosine).clamp_min(0)
    if distance.power == 2:
        return -squared
    some = squared > 0  # the root has no slope at 0
    return -torch.where(some, squared.where(some, 1) ** (distance.power / 2), 0)
