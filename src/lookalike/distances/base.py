"""What every distance is: a matrix, and how to read it with "larger is closer"."""

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import normalize

from lookalike.distances.statistics import Statistics
from lookalike.errors import BadInput
from lookalike.ops.rows import check_rows, unit

__all__ = ["AdjustableDistance", "Distance", "raised", "ready"]


class Distance(Statistics):
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

    def pairwise_distance(self, query_emb: Tensor, ref_emb: Tensor) -> Tensor:
        """[N] each query row against the reference row of the same place, before ``power``.

        The rows are taken as they are: ``maybe_normalize`` them first.
        """
        raise NotImplementedError

    def margin(self, x: Tensor, y: Tensor) -> Tensor:
        """How much farther ``x`` is than ``y``: ``x - y``; of similarities ``y - x``."""
        return y - x if self.is_inverted else x - y

    def smallest_dist(self, *args: Any, **kwargs: Any) -> Any:
        """``torch.min`` of a matrix in this unit, or ``torch.max`` of similarities."""
        return (torch.max if self.is_inverted else torch.min)(*args, **kwargs)

    def largest_dist(self, *args: Any, **kwargs: Any) -> Any:
        """``torch.max`` of a matrix in this unit, or ``torch.min`` of similarities."""
        return (torch.min if self.is_inverted else torch.max)(*args, **kwargs)

    def normalize(self, embeddings: Tensor, dim: int = 1, **kwargs: Any) -> Tensor:
        """The embeddings at length 1, by the norm ``p``."""
        return normalize(embeddings, p=self.p, dim=dim, **kwargs)

    def maybe_normalize(self, embeddings: Tensor, dim: int = 1, **kwargs: Any) -> Tensor:
        """The embeddings as this distance reads them: at length 1, or as they are."""
        return (
            self.normalize(embeddings, dim, **kwargs) if self.normalize_embeddings else embeddings
        )

    def get_norm(self, embeddings: Tensor, dim: int = 1, **kwargs: Any) -> Tensor:
        """The lengths of the embeddings, by the norm ``p``."""
        lengths: Tensor = torch.linalg.vector_norm(embeddings, self.p, dim, **kwargs)
        return lengths

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


def raised(matrix: Tensor, power: float) -> Tensor:
    """``matrix ** power``."""
    return matrix if power == 1 else matrix**power


def ready(
    distance: Distance, query: Tensor, reference: Tensor | None
) -> tuple[Tensor, Tensor | None]:
    """The rows as this distance reads them: of unit length, or as they are."""
    if not distance.normalize_embeddings:
        return query, reference

    def shorten(rows: Tensor) -> Tensor:
        return unit(rows) if distance.p == 2 else normalize(rows, p=distance.p, dim=1)

    return shorten(query), None if reference is None else shorten(reference)
