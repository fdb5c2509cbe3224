"""Distances by name, and those of other packages."""

from collections.abc import Callable
from typing import Protocol, TypeAlias, runtime_checkable

from torch import Tensor

from lookalike.distances.base import Distance
from lookalike.distances.hyperbolic import HyperbolicDistance
from lookalike.distances.lp import LpDistance
from lookalike.distances.products import CosineSimilarity, DotProductSimilarity
from lookalike.distances.snr import SNRDistance
from lookalike.errors import BadInput, did_you_mean

__all__ = ["DistanceLike", "create", "names"]


@runtime_checkable
class _Foreign(Protocol):
    """A distance of another library: a call, and whether larger is closer."""

    is_inverted: bool

    def __call__(self, query_emb: Tensor, ref_emb: Tensor) -> Tensor: ...


class _Adopted(Distance):
    """A distance of another library in our clothes."""

    symmetric = False

    def __init__(self, foreign: _Foreign) -> None:
        self.foreign = foreign
        self.is_inverted = foreign.is_inverted
        self.normalize_embeddings = bool(getattr(foreign, "normalize_embeddings", False))
        self.power = float(getattr(foreign, "power", 1))

    @property
    def ordered_by_cosine(self) -> bool:
        return False

    def check_shapes(self, query_emb: Tensor, ref_emb: Tensor | None) -> None:
        own = getattr(self.foreign, "check_shapes", super().check_shapes)
        own(query_emb, query_emb if ref_emb is None else ref_emb)

    def matrix(self, query: Tensor, reference: Tensor | None) -> Tensor:
        return self.foreign(query, query if reference is None else reference)


DistanceLike: TypeAlias = Distance | str | _Foreign

_NAMED: dict[str, Callable[[], Distance]] = {
    "cosine": CosineSimilarity,
    "dot": lambda: DotProductSimilarity(normalize_embeddings=False),
    "hyperbolic": HyperbolicDistance,
    "l2": LpDistance,
    "l2-squared": lambda: LpDistance(power=2),
    "snr": SNRDistance,
}


def names() -> list[str]:
    """The names that ``create`` takes.

    Returns:
        Names, sorted.

    >>> names()
    ['cosine', 'dot', 'hyperbolic', 'l2', 'l2-squared', 'snr']
    """
    return sorted(_NAMED)


def create(distance: DistanceLike) -> Distance:
    """A distance by name.

    Args:
        distance: A name, or a distance (ours, or one of PML's), which is taken as it is.

    Returns:
        A distance.

    >>> create("l2-squared")
    LpDistance(normalize_embeddings=True, p=2, power=2)
    """
    if isinstance(distance, Distance):
        return distance
    if isinstance(distance, str):
        if distance not in _NAMED:
            raise BadInput(f"there is no distance '{distance}'; " + did_you_mean(distance, _NAMED))
        return _NAMED[distance]()
    if isinstance(distance, _Foreign):
        return _Adopted(distance)
    raise BadInput(f"'{distance}' is not a distance; choose one of: " + ", ".join(names()))
