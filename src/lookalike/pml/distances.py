"""``pytorch_metric_learning.distances``: all of ``lookalike.distances`` with its methods."""

from copy import copy
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import normalize, pairwise_distance

from lookalike.distances import *
from lookalike.distances import chosen_distance
from lookalike.pml.shipped import Shipped, chosen, core_of, dressed, ship
from lookalike.registry import DISTANCES


class Methods(Shipped, Distance):
    """What code written against PML calls on a distance."""

    hooks = (
        "compute_mat forward margin smallest_dist largest_dist normalize maybe_normalize get_norm "
        "reset_stats set_default_stats"
    )
    instead = "write matrix(query, reference), or subclass BaseDistance"

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
        if not self.normalize_embeddings:
            return embeddings
        return self.normalize(embeddings, dim, **kwargs)

    def get_norm(self, embeddings: Tensor, dim: int = 1, **kwargs: Any) -> Tensor:
        """The lengths of the embeddings, by the norm ``p``."""
        lengths: Tensor = torch.linalg.vector_norm(embeddings, self.p, dim, **kwargs)
        return lengths

    def __eq__(self, other: object) -> bool:
        return core_of(self) is core_of(other) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash((core_of(self), tuple(sorted(vars(self).items()))))

    def pairwise_distance(self, query_emb: Tensor, ref_emb: Tensor) -> Tensor:
        """[N] each query row against the reference row of the same place, before ``power``.

        The rows are taken as they are: ``maybe_normalize`` them first.
        """
        if isinstance(self, LpDistance):
            return pairwise_distance(query_emb, ref_emb, self.p)
        if isinstance(self, CosineSimilarity):
            return (query_emb * ref_emb).sum(1)
        plain: Any = copy(self)
        vars(plain).update(normalize_embeddings=False, power=1)
        parts = zip(torch.split(query_emb, 256), torch.split(ref_emb, 256), strict=True)
        return torch.cat([plain(rows, others).diagonal() for rows, others in parts])


class BaseDistance(Methods, AdjustableDistance):
    """A distance by ``compute_mat(query_emb, ref_emb)``, as PML's subclasses write it.

    The rows come at length 1 where ``normalize_embeddings``; ``power`` is applied to the matrix.

    Args:
        normalize_embeddings: Whether embeddings are brought to unit length.
        p: The norm of that length.
        power: To which the numbers are raised.
        is_inverted: Whether larger is closer.

    >>> class Largest(BaseDistance):
    ...     def compute_mat(self, query_emb, ref_emb):
    ...         return torch.cdist(query_emb, ref_emb, p=float("inf"))
    >>> Largest(normalize_embeddings=False)(torch.tensor([[0.0, 0.0], [1.0, 3.0]]))
    tensor([[0., 3.],
            [3., 0.]])
    """

    hooks = ""
    symmetric = False

    def __init__(
        self,
        normalize_embeddings: bool = True,
        p: float = 2,
        power: float = 1,
        is_inverted: bool = False,
    ) -> None:
        super().__init__(normalize_embeddings, p, power)
        self.is_inverted = is_inverted

    @property
    def ordered_by_cosine(self) -> bool:
        """False: nothing is known of the order."""
        return False

    def compute_mat(self, query_emb: Tensor, ref_emb: Tensor) -> Tensor:
        """The matrix of rows that are ready to be compared."""
        raise NotImplementedError

    def matrix(self, query: Tensor, reference: Tensor | None) -> Tensor:
        """``compute_mat`` to the power."""
        rows = self.maybe_normalize(query)
        others = rows if reference is None else self.maybe_normalize(reference)
        return self.raised(self.compute_mat(rows, others))


class _Adopted(BaseDistance):
    """A distance of another package."""

    def __init__(self, other: Any) -> None:
        unit = bool(getattr(other, "normalize_embeddings", False))
        power = float(getattr(other, "power", 1))
        super().__init__(unit, power=power, is_inverted=other.is_inverted)
        self.other = other

    def check_shapes(self, query_emb: Tensor, ref_emb: Tensor | None) -> None:
        own = getattr(self.other, "check_shapes", super().check_shapes)
        own(query_emb, query_emb if ref_emb is None else ref_emb)

    def matrix(self, query: Tensor, reference: Tensor | None) -> Tensor:
        return self.other(query, query if reference is None else reference)  # type: ignore[no-any-return]


_PARTS = ship(globals(), Distance, Methods)


def adopted_distance(given: Any) -> Any:
    """Ours by name, ours with PML's methods, or one of another package; None: None."""
    if given is None or isinstance(given, Methods):
        return given
    if callable(given) and hasattr(given, "is_inverted") and not isinstance(given, Distance):
        return _Adopted(given)
    return dressed(DISTANCES.build(given, Distance), _PARTS)


def distance_of(part: Any, given: Any) -> Distance:
    """The distance of a loss or miner: what was given, or its default, if it fits the part."""
    return chosen_distance(part, adopted_distance(chosen(part, given, "distance")))
