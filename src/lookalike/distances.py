"""How near two embeddings are: cosine, inner product, Lp distance, signal-to-noise ratio.

A distance is called as ``distance(query, reference)`` and gives the matrix in its own unit;
``distance.similarity`` gives the same with "larger is closer", which is what the losses read.
"""

from collections.abc import Callable
from dataclasses import KW_ONLY
from typing import TYPE_CHECKING, ClassVar, Protocol, TypeAlias, runtime_checkable

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from lookalike.errors import BadInput, did_you_mean
from lookalike.ops.rows import euclidean, products, unit, without_rounding
from lookalike.registry import Configurable

__all__ = [
    "CosineSimilarity",
    "Distance",
    "DistanceLike",
    "DistanceModule",
    "DotProductSimilarity",
    "LpDistance",
    "SNRDistance",
    "create",
    "names",
]


class Distance:
    """A matrix of distances (or, where ``is_inverted``, of similarities)."""

    is_inverted: bool = False
    normalize_embeddings: bool = True
    p: float = 2
    power: float = 1
    symmetric: bool = True
    """Whether both directions of a pair are alike."""

    def matrix(self, query: Tensor, reference: Tensor | None) -> Tensor:
        """The matrix in the unit of this distance; ``reference`` None is the query itself."""
        raise NotImplementedError

    def __call__(self, query_emb: Tensor, ref_emb: Tensor | None = None) -> Tensor:
        """All distances (or similarities) from the query rows to the reference rows."""
        return self.matrix(query_emb, None if ref_emb is query_emb else ref_emb)

    def similarity(self, query: Tensor, reference: Tensor | None = None) -> Tensor:
        """The matrix with "larger is closer": distances come with a minus."""
        matrix = self.matrix(query, reference)
        return matrix if self.is_inverted else -matrix

    def squared_euclidean(self, similarity: Tensor) -> Tensor:  # noqa: ARG002
        """The squared Euclidean distances of the rows compared, from their similarities."""
        raise BadInput(f"{self} does not tell Euclidean distances; use cosine, l2 or l2-squared")

    def level(self, value: float) -> float:
        """A margin given in the unit of this distance, as a similarity."""
        return value if self.is_inverted else -value

    @property
    def ordered_by_cosine(self) -> bool:
        """Whether the order of candidates is that of the cosine (so it is shared by many)."""
        return self.normalize_embeddings and self.p == 2

    def same_order(self, other: "Distance") -> bool:
        """Whether both put the candidates of an anchor in the same order."""
        return (self.ordered_by_cosine and other.ordered_by_cosine) or self == other

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash((type(self), tuple(sorted(vars(self).items()))))

    def __repr__(self) -> str:
        settings = ", ".join(f"{name}={value}" for name, value in sorted(vars(self).items()))
        return f"{type(self).__name__}({settings})"


def _raised(matrix: Tensor, power: float) -> Tensor:
    return matrix if power == 1 else matrix**power


def _squared_from_cosine(cosine: Tensor) -> Tensor:
    """``2 - 2 s``; 0 where that is no more than rounding, in up to 4,096 dimensions."""
    return without_rounding(2 - 2 * cosine, 2.0, 4096)


class CosineSimilarity(Distance):
    """The cosine of the angle between two embeddings.

    >>> CosineSimilarity()(torch.tensor([[2.0, 0.0], [0.0, 3.0]]))
    tensor([[1., 0.],
            [0., 1.]])
    """

    is_inverted = True

    def matrix(self, query: Tensor, reference: Tensor | None) -> Tensor:
        """``x.y / |x| |y|``."""
        return products(query, reference, unit_rows=True)

    def squared_euclidean(self, similarity: Tensor) -> Tensor:
        """``2 - 2 s``."""
        return _squared_from_cosine(similarity)


class _Adjustable(Distance):
    """Of unit vectors or not, of a norm p, raised to a power.

    Args:
        normalize_embeddings: Whether embeddings are brought to unit length.
        p: The norm of that length; for ``LpDistance`` also that of the difference.
        power: To which the numbers are raised.
    """

    def __init__(self, normalize_embeddings: bool = True, p: float = 2, power: float = 1) -> None:
        self.normalize_embeddings = normalize_embeddings
        self.p = p
        self.power = power


class DotProductSimilarity(_Adjustable):
    """The inner product, of unit vectors unless ``normalize_embeddings=False``."""

    is_inverted = True

    @property
    def ordered_by_cosine(self) -> bool:
        """True for unit vectors, unless an even power folds the negative side over."""
        return super().ordered_by_cosine and self.power == 1

    def matrix(self, query: Tensor, reference: Tensor | None) -> Tensor:
        """``x.y``."""
        if self.p == 2:
            return _raised(
                products(query, reference, unit_rows=self.normalize_embeddings), self.power
            )
        return _raised(products(*_ready(self, query, reference)), self.power)

    def squared_euclidean(self, similarity: Tensor) -> Tensor:
        """``2 - 2 s`` of unit vectors."""
        if not self.ordered_by_cosine:
            return super().squared_euclidean(similarity)
        return _squared_from_cosine(similarity)


class LpDistance(_Adjustable):
    """The p-norm of the difference (Euclidean for p = 2), raised to ``power``.

    >>> LpDistance()(torch.tensor([[2.0, 0.0], [0.0, 3.0]]))
    tensor([[0.0000, 1.4142],
            [1.4142, 0.0000]])
    """

    def matrix(self, query: Tensor, reference: Tensor | None) -> Tensor:
        """``|x - y|_p ^ power``."""
        return self._signed(query, reference, 1)

    def similarity(self, query: Tensor, reference: Tensor | None = None) -> Tensor:
        """Minus the distance."""
        if self.p == 2 and self.power in (1, 2):
            return self._signed(query, reference, -1)
        return super().similarity(query, reference)

    def _signed(self, query: Tensor, reference: Tensor | None, sign: float) -> Tensor:
        if self.p != 2:
            rows, others = _ready(self, query, reference)
            return _raised(
                torch.cdist(rows, rows if others is None else others, self.p), self.power
            )
        squared = self.power == 2
        matrix = euclidean(
            query, reference, unit_rows=self.normalize_embeddings, squared=squared, sign=sign
        )
        return matrix if squared else _raised(matrix, self.power)

    def squared_euclidean(self, similarity: Tensor) -> Tensor:
        """``d^2``, for p = 2 and power 1 or 2."""
        if self.p != 2 or self.power not in (1, 2):
            return super().squared_euclidean(similarity)
        return -similarity if self.power == 2 else similarity * similarity


class SNRDistance(_Adjustable):
    """The variance of the difference over the variance of the anchor (Yuan et al., CVPR 2019).

    ``var(x - y) / var(x)`` over the components. An anchor without variance has distance 0 to all.
    """

    symmetric = False

    @property
    def ordered_by_cosine(self) -> bool:
        """False: the components are centred first."""
        return False

    def matrix(self, query: Tensor, reference: Tensor | None) -> Tensor:
        """From inner products of centred rows; nothing of size N x N x D."""
        return _raised(self._signed(query, reference, 1), self.power)

    def similarity(self, query: Tensor, reference: Tensor | None = None) -> Tensor:
        """Minus the distance."""
        if self.power == 1:
            return self._signed(query, reference, -1)
        return super().similarity(query, reference)

    def _signed(self, query: Tensor, reference: Tensor | None, sign: float) -> Tensor:
        rows, others = _ready(self, query, reference)
        rows = rows - rows.mean(1, keepdim=True)
        if others is not None:
            others = others - others.mean(1, keepdim=True)
        signal = (rows * rows).sum(1, keepdim=True)
        some = signal > torch.finfo(signal.dtype).tiny
        return euclidean(rows, others, squared=True, sign=sign) * (some / signal.where(some, 1))


def _ready(
    distance: Distance, query: Tensor, reference: Tensor | None
) -> tuple[Tensor, Tensor | None]:
    """The rows as this distance reads them: of unit length, or as they are."""
    if not distance.normalize_embeddings:
        return query, reference

    def shorten(rows: Tensor) -> Tensor:
        return unit(rows) if distance.p == 2 else normalize(rows, p=distance.p, dim=1)

    return shorten(query), None if reference is None else shorten(reference)


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

    def matrix(self, query: Tensor, reference: Tensor | None) -> Tensor:
        return self.foreign(query, query if reference is None else reference)


DistanceLike: TypeAlias = Distance | str | _Foreign

_NAMED: dict[str, Callable[[], Distance]] = {
    "cosine": CosineSimilarity,
    "dot": lambda: DotProductSimilarity(normalize_embeddings=False),
    "l2": LpDistance,
    "l2-squared": lambda: LpDistance(power=2),
    "snr": SNRDistance,
}


def names() -> list[str]:
    """The names that ``create`` takes.

    Returns:
        Names, sorted.

    >>> names()
    ['cosine', 'dot', 'l2', 'l2-squared', 'snr']
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


if TYPE_CHECKING:

    class _DistanceArgument:
        """An argument that takes a name or a distance, and an attribute that is a distance."""

        def __get__(self, module: object, kind: type | None = None) -> Distance: ...

        def __set__(self, module: object, given: DistanceLike | None) -> None: ...


NEEDS: dict[str, Callable[[Distance], bool]] = {
    "a distance (l2)": lambda distance: not distance.is_inverted,
    "a similarity (cosine)": lambda distance: distance.is_inverted,
    "distances of unit vectors (l2 or l2-squared)": (
        lambda distance: distance.ordered_by_cosine and not distance.is_inverted
    ),
    "the cosine": lambda distance: distance.is_inverted and distance.ordered_by_cosine,
    "unit vectors (cosine or l2)": lambda distance: distance.ordered_by_cosine,
}
"""What losses and miners may ask of a distance."""


class DistanceModule(Configurable, nn.Module):
    """What losses and miners share: they compare embeddings by a distance.

    Args:
        distance: How embeddings are compared; None: the default of the loss or miner.
    """

    default_distance: ClassVar[Callable[[], Distance]] = CosineSimilarity
    """What ``distance=None`` means."""
    needs: ClassVar[str] = ""
    """What the distance must be, one of the keys of ``NEEDS``; empty: anything."""

    _: KW_ONLY
    if TYPE_CHECKING:
        distance: _DistanceArgument = _DistanceArgument()
    else:
        distance: DistanceLike | None = None

    def __post_init__(self) -> None:
        """Build the distance, and check the settings."""
        super().__post_init__()
        given = self.distance
        del self.distance  # one of PML's is a torch module, which only a module may replace
        self.distance = type(self).default_distance() if given is None else create(given)
        if self.needs and not NEEDS[self.needs](self.distance):
            raise BadInput(f"{type(self).__name__} needs {self.needs}, not {self.distance}")
