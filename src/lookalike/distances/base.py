"""What every distance is: a matrix, and how to read it with "larger is closer"."""

from collections.abc import Callable
from typing import Any, TypeAlias

from torch import Tensor
from torch.nn.functional import normalize

from lookalike.errors import BadInput
from lookalike.ops.rows import check_rows, normalize_rows
from lookalike.registry import DISTANCES

__all__ = ["AdjustableDistance", "Distance", "DistanceLike", "build"]


class Distance:
    """A matrix of distances (or, where ``is_inverted``, of similarities)."""

    is_inverted: bool = False
    normalize_embeddings: bool = True
    p: float = 2
    power: float = 1
    symmetric: bool = True
    """Whether both directions of a pair are alike."""

    def check_shapes(self, query_emb: Tensor, ref_emb: Tensor | None) -> None:
        """Refuse what is not rows of one width; a distance of other shapes overrides it."""
        check_rows(query_emb, None)
        if ref_emb is not None:
            check_rows(ref_emb, query_emb.shape[1], "ref_emb")

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

    def to_similarity(self, value: float) -> float:
        """A margin given in the unit of this distance, as a similarity."""
        return value if self.is_inverted else -value

    @property
    def ordered_by_cosine(self) -> bool:
        """Whether it orders candidates as the cosine does."""
        return self.normalize_embeddings and self.p == 2

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash((type(self), tuple(sorted(vars(self).items()))))

    def __repr__(self) -> str:
        settings = ", ".join(f"{name}={value}" for name, value in sorted(vars(self).items()))
        return f"{type(self).__name__}({settings})"


class AdjustableDistance(Distance):
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

    def raised(self, matrix: Tensor) -> Tensor:
        """``matrix ** power``."""
        return matrix if self.power == 1 else matrix**self.power

    def ready(self, query: Tensor, reference: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """The rows as this distance reads them: of unit length, or as they are."""
        if not self.normalize_embeddings:
            return query, reference

        def unit(rows: Tensor) -> Tensor:
            return normalize_rows(rows) if self.p == 2 else normalize(rows, p=self.p, dim=1)

        return unit(query), None if reference is None else unit(reference)


DistanceLike: TypeAlias = Distance | str | dict[str, Any]
"""A distance, its name, or ``{name: ..., argument: ...}``."""


def build(distance: DistanceLike) -> Distance:
    """A distance by name or settings; a distance as it is.

    Args:
        distance: What was given.

    Returns:
        A distance.
    """
    if isinstance(distance, str | dict):
        made: Distance = DISTANCES.build(distance)
        return made
    if not isinstance(distance, Distance):
        names = ", ".join(DISTANCES.names())
        raise BadInput(f"'{distance}' is not a distance; choose one of: {names}")
    return distance


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


def chosen_distance(part: Any, given: DistanceLike | None) -> Distance:
    """The distance of a loss or miner: its default, or what was given if it fits the part."""
    distance: Distance = type(part).default_distance() if given is None else build(given)
    if part.needs and not NEEDS[part.needs](distance):
        raise BadInput(f"{type(part).__name__} needs {part.needs}, not {distance}")
    return distance
