"""How near two embeddings are: cosine, inner product, Lp, signal-to-noise ratio, hyperbolic.

A distance is called as ``distance(query, reference)`` and gives the matrix in its own unit;
``distance.similarity`` gives the same with "larger is closer", which is what the losses read.
"""

import math
from collections.abc import Callable
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch.nn.functional import normalize

from lookalike.errors import BadInput
from lookalike.ops.rows import check_rows, euclidean, normalize_rows, products, without_rounding
from lookalike.registry import DISTANCES

__all__ = [
    "AdjustableDistance",
    "CosineSimilarity",
    "Distance",
    "DistanceLike",
    "DotProductSimilarity",
    "HyperbolicDistance",
    "LpDistance",
    "SNRDistance",
    "create",
    "names",
    "squared_l2",
]

create = DISTANCES.create
names = DISTANCES.names


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


def _squared_from_cosine(cosine: Tensor) -> Tensor:
    """``2 - 2 s``; 0 where that is no more than rounding, in up to 4,096 dimensions."""
    return without_rounding(2 - 2 * cosine, 2.0, 4096)


@DISTANCES.register("cosine")
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


class DotProductSimilarity(AdjustableDistance):
    """The inner product, of unit vectors unless ``normalize_embeddings=False``."""

    is_inverted = True

    @property
    def ordered_by_cosine(self) -> bool:
        """True for unit vectors, unless an even power folds the negative side over."""
        return super().ordered_by_cosine and self.power == 1

    def matrix(self, query: Tensor, reference: Tensor | None) -> Tensor:
        """``x.y``."""
        return self.raised(products(*self.ready(query, reference)))

    def squared_euclidean(self, similarity: Tensor) -> Tensor:
        """``2 - 2 s`` of unit vectors."""
        if not self.ordered_by_cosine:
            return super().squared_euclidean(similarity)
        return _squared_from_cosine(similarity)


@DISTANCES.register("dot")
def dot_product() -> DotProductSimilarity:
    """The inner product of the rows as they are."""
    return DotProductSimilarity(normalize_embeddings=False)


@DISTANCES.register("l2")
class LpDistance(AdjustableDistance):
    """The p-norm of the difference (Euclidean for p = 2), raised to ``power``.

    >>> LpDistance()(torch.tensor([[2.0, 0.0], [0.0, 3.0]]))
    tensor([[0.0000, 1.4142],
            [1.4142, 0.0000]])
    """

    def matrix(self, query: Tensor, reference: Tensor | None) -> Tensor:
        """``|x - y|_p ^ power``."""
        if self.p != 2:
            rows, others = self.ready(query, reference)
            return self.raised(torch.cdist(rows, rows if others is None else others, self.p))
        squared = self.power == 2
        matrix = euclidean(query, reference, unit_rows=self.normalize_embeddings, squared=squared)
        return matrix if squared else self.raised(matrix)

    def squared_euclidean(self, similarity: Tensor) -> Tensor:
        """``d^2``, for p = 2 and power 1 or 2."""
        if self.p != 2 or self.power not in (1, 2):
            return super().squared_euclidean(similarity)
        return -similarity if self.power == 2 else similarity * similarity


@DISTANCES.register("l2-squared")
def squared_l2() -> LpDistance:
    """Squared Euclidean distances of unit vectors.

    Returns:
        The distance.
    """
    return LpDistance(power=2)


@DISTANCES.register("snr", paper="Yuan et al., CVPR 2019")
class SNRDistance(AdjustableDistance):
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
        rows, others = self.ready(query, reference)
        rows = rows - rows.mean(1, keepdim=True)
        if others is not None:
            others = others - others.mean(1, keepdim=True)
        signal = (rows * rows).sum(1, keepdim=True)
        varies = signal > torch.finfo(signal.dtype).tiny
        return self.raised(
            euclidean(rows, others, squared=True) * (varies / signal.where(varies, 1))
        )


_INSIDE = math.atanh(1 - 1e-3)
"""Points stay within 0.999 of the ball's radius, beyond which single precision ends."""


@DISTANCES.register("hyperbolic", paper="Ermolov et al., CVPR 2022")
class HyperbolicDistance(Distance):
    """The distance in the Poincare ball of curvature -c, of rows that are mapped into it.

    A row v, made no longer than ``clip_r``, becomes the point
    ``x = tanh(sqrt(c) |v|) v / (sqrt(c) |v|)`` (the exponential map at 0), and
    ``d = 2 / sqrt(c) arsinh(sqrt(c) |x - y| / sqrt((1 - c |x|^2) (1 - c |y|^2)))``, which is
    ``2 / sqrt(c) artanh(sqrt(c) |-x + y|)`` with Moebius addition (Ermolov et al., CVPR 2022).
    Rows of one length are ordered as by the cosine.

    Args:
        c: Minus the curvature.
        clip_r: The longest that a row may be; None: as long as numbers allow.

    >>> HyperbolicDistance()(torch.tensor([[0.0, 0.0], [1.0, 0.0]]))
    tensor([[0., 2.],
            [2., 0.]])
    """

    normalize_embeddings = False

    def __init__(self, c: float = 0.1, clip_r: float | None = 2.3) -> None:
        if c <= 0 or (clip_r is not None and clip_r <= 0):
            raise BadInput(f"c and clip_r must be above 0, not {c} and {clip_r}")
        self.c = c
        self.clip_r = clip_r

    def matrix(self, query: Tensor, reference: Tensor | None) -> Tensor:
        """From Euclidean distances of the points; nothing of size N x N x D."""
        points, stretch = self._mapped(query)
        others, other_stretch = (None, stretch) if reference is None else self._mapped(reference)
        root, apart = math.sqrt(self.c), euclidean(points, others)
        return torch.asinh(root * apart * stretch * other_stretch.T) * (2 / root)

    def _mapped(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """The points of the ball, and ``1 / sqrt(1 - c |x|^2)`` of each, which is a cosh."""
        root = math.sqrt(self.c)
        squared = rows.square().sum(1, keepdim=True)
        positive = squared > torch.finfo(squared.dtype).tiny  # the root has no gradient at 0
        length = squared.where(positive, 1).sqrt()
        longest = _INSIDE / root if self.clip_r is None else min(self.clip_r, _INSIDE / root)
        angle = root * length.clamp_max(longest)
        factor = torch.where(positive, angle.tanh() / (root * length), 1)
        return rows * factor, torch.where(positive, angle.cosh(), 1)


DistanceLike: TypeAlias = Distance | str | dict[str, Any]
"""A distance, its name, or ``{name: ..., argument: ...}``."""

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
    distance = DISTANCES.build(type(part).default_distance() if given is None else given, Distance)
    if part.needs and not NEEDS[part.needs](distance):
        raise BadInput(f"{type(part).__name__} needs {part.needs}, not {distance}")
    return distance
