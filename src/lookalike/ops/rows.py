"""Rows of numbers: unit length, inner products, Euclidean distances."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from lookalike.errors import BadInput
from lookalike.ops.fused import fused, uses_formulas
from lookalike.ops.hinge import above

__all__ = [
    "check_rows",
    "euclidean",
    "in_full_precision",
    "products",
    "unit",
    "without_rounding",
]


def in_full_precision(values: Tensor) -> Tensor:
    """Half precision as float32; float32 and float64 unchanged."""
    return values.float() if values.dtype in (torch.float16, torch.bfloat16) else values


def check_rows(embeddings: Tensor, width: int | None, what: str = "embeddings") -> None:
    """Refuse what is not floating-point rows of ``width`` numbers (None: of any width)."""
    if not isinstance(embeddings, Tensor):
        kind = type(embeddings)
        raise BadInput(f"{what} must be a torch.Tensor, not {kind.__module__}.{kind.__qualname__}")
    if embeddings.ndim != 2:
        raise BadInput(f"{what} must be rows, [N, D]; these are {tuple(embeddings.shape)}")
    if not embeddings.is_floating_point():
        raise BadInput(f"{what} must be floating-point numbers, not {embeddings.dtype}")
    if width is not None and embeddings.shape[1] != width:
        raise BadInput(f"{what} have {embeddings.shape[1]} columns, but {width} are needed")


def without_rounding(squared: Tensor, lengths: Tensor | float, dimension: int) -> Tensor:
    """Squared distances, those not larger than their own rounding error as 0 (with gradient 0).

    ``|x|^2 + |y|^2 - 2 x.y`` of two nearly equal rows is what rounding left of a difference of two
    large numbers: 0 on one processor, 1e-8 on another, and its root is 10,000 times larger. An
    inner product of ``dimension`` terms is off by up to about ``sqrt(dimension)`` units in the last
    place of ``lengths``, which is ``|x|^2 + |y|^2``.

    >>> without_rounding(torch.tensor([1e-7, 0.5]), 2.0, 128)
    tensor([0.0000, 0.5000])
    """
    bound = lengths * _rounding(squared.dtype, dimension)
    if isinstance(bound, Tensor):
        return squared.where(squared > bound, 0)
    return torch.threshold(squared, bound, 0)


def _rounding(dtype: torch.dtype, dimension: int) -> float:
    return torch.finfo(dtype).eps * (4 + math.sqrt(dimension))


def unit(x: Tensor) -> Tensor:
    """Rows of length 1 (zero rows stay zero, with zero gradient)."""

    def fast(x: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        rows, inverse = _unit_rows(x)
        return rows, (rows, inverse)

    def backward(
        gradient: Tensor, kept: tuple[Tensor | None, ...], _: Sequence[bool]
    ) -> tuple[Tensor]:
        rows, inverse = kept
        assert rows is not None
        return (_through_unit(gradient, rows, inverse),)

    rows = fused(_unit, fast, x, backward=backward)
    if not uses_formulas() and rows.grad_fn is not None:
        rows.made_unit_by = rows.grad_fn  # type: ignore[attr-defined]
    return rows


def _divide(x: Tensor, unit_rows: bool) -> bool:
    """Whether rows that are to have length 1 must still be divided by their length.

    A model ends in ``unit``, and most losses begin with it; dividing the same rows twice slows down
    a short step (a head on frozen features: ``benchmarks/frozen.py``). So ``unit`` marks the tensor
    that it returns by the node of the graph that made it. A change in place gives the tensor
    another node, and what is computed from it has no mark: both are divided. The gradient stays
    right, since that of ``unit`` has no part along the row.
    """
    if not unit_rows or uses_formulas():  # the compiler divides in passing
        return unit_rows
    return x.grad_fn is None or getattr(x, "made_unit_by", None) is not x.grad_fn


def products(x: Tensor, y: Tensor | None = None, *, unit_rows: bool = False) -> Tensor:
    """All inner products [N, M] of the rows of ``x`` with those of ``y``, or with one another.

    ``y`` None is ``x``, which takes one product less in the backward pass. ``unit_rows``: of the
    rows at length 1 (cosines).
    """
    divided = _divide(x, unit_rows), y is not None and _divide(y, unit_rows)

    def formula(x: Tensor, y: Tensor | None = None) -> Tensor:
        u, v = _ready(x, y, unit_rows)
        return u @ v.T

    def fast(x: Tensor, y: Tensor | None = None) -> tuple[Tensor, tuple[Tensor | None, ...]]:
        u, scale = _unit_rows(x) if divided[0] else (x, None)
        if y is None:
            return u @ u.T, (u, None, scale, None)
        v, other = _unit_rows(y) if divided[1] else (y, None)
        return u @ v.T, (u, v, scale, other)

    def backward(
        gradient: Tensor, kept: tuple[Tensor | None, ...], needed: Sequence[bool]
    ) -> tuple[Tensor | None, ...]:
        u, v, scale, other = kept
        assert u is not None
        if v is None:
            return (_through_unit(_both_ways(gradient, u), u, scale),)
        return (
            _through_unit(gradient @ v, u, scale) if needed[0] else None,
            _through_unit(gradient.T @ u, v, other) if needed[1] else None,
        )

    inputs = (x,) if y is None else (x, y)
    return fused(formula, fast, *inputs, backward=backward)


def euclidean(
    x: Tensor,
    y: Tensor | None = None,
    *,
    unit_rows: bool = False,
    squared: bool = False,
    sign: float = 1,
) -> Tensor:
    """All Euclidean distances [N, M] of the rows, from inner products: ``|x|^2 + |y|^2 - 2 x.y``.

    0 with gradient 0 where two rows differ by no more than rounding. ``y`` None is ``x``;
    ``unit_rows``: of the rows at length 1; ``sign`` -1 for similarities.
    """
    divided = _divide(x, unit_rows), y is not None and _divide(y, unit_rows)

    def formula(x: Tensor, y: Tensor | None = None) -> Tensor:
        u, v = _ready(x, y, unit_rows)
        lengths = 2.0 if unit_rows else _squared_lengths(u, v)
        distance = without_rounding(lengths - 2 * u @ v.T, lengths, u.shape[1])
        if not squared:
            some = distance > 0
            distance = torch.where(some, distance.where(some, 1).sqrt(), 0)
        return sign * distance

    def fast(x: Tensor, y: Tensor | None = None) -> tuple[Tensor, tuple[Tensor | None, ...]]:
        u, scale = _unit_rows(x) if divided[0] else (x, None)
        v, other = (None, None) if y is None else _unit_rows(y) if divided[1] else (y, None)
        w = u if v is None else v
        lengths = u.new_full((1, 1), 2) if unit_rows else _squared_lengths(u, w)
        distance = torch.addmm(lengths, u, w.T, alpha=-2)
        rounding = _rounding(u.dtype, u.shape[1])  # as in without_rounding, in place
        if unit_rows:
            torch.threshold_(distance, 2 * rounding, 0)
        else:
            distance.mul_(above(distance, lengths.mul_(rounding)))
        if not squared:
            distance.sqrt_()
        if sign != 1:
            distance.mul_(sign)
        return distance, (u, v, scale, other, None if squared else distance)

    def backward(
        gradient: Tensor, kept: tuple[Tensor | None, ...], needed: Sequence[bool]
    ) -> tuple[Tensor | None, ...]:
        u, v, scale, other, distance = kept
        assert u is not None
        if distance is None:
            pull = gradient * (2 * sign)
        else:
            # the distance carries its sign; where it is 0 so is the gradient
            pull = (gradient / distance).nan_to_num_(0, 0, 0)

        # sum_j pull_ij (x_i - y_j); the part along x_i falls away when the length is fixed
        def of(moved: Tensor, rows: Tensor, inverse: Tensor | None, *along: int) -> Tensor:
            if not unit_rows:
                for dim in along:
                    moved.addcmul_(rows, pull.sum(dim).unsqueeze(1))
            return _through_unit(moved, rows, inverse)

        if v is None:
            return (of(_both_ways(pull, u, -1), u, scale, 1, 0),)
        return (
            of(_times(pull, v, -1, u), u, scale, 1) if needed[0] else None,
            of(_times(pull.T, u, -1, v), v, other, 0) if needed[1] else None,
        )

    inputs = (x,) if y is None else (x, y)
    return fused(formula, fast, *inputs, backward=backward)


def _unit(x: Tensor) -> Tensor:
    """``x / |x|``; a zero row stays zero."""
    length = torch.linalg.vector_norm(x, dim=1, keepdim=True)
    some = length > 0
    return x * torch.where(some, length.where(some, 1).reciprocal(), 0)


def _ready(x: Tensor, y: Tensor | None, unit_rows: bool) -> tuple[Tensor, Tensor]:
    u = _unit(x) if unit_rows else x
    return u, u if y is None else _unit(y) if unit_rows else y


def _squared_lengths(u: Tensor, v: Tensor) -> Tensor:
    return (u * u).sum(1, keepdim=True) + (v * v).sum(1)


def _unit_rows(x: Tensor) -> tuple[Tensor, Tensor]:
    """The rows at length 1 and what they were multiplied by; a zero row stays zero, times 0."""
    length = torch.linalg.vector_norm(x, dim=1, keepdim=True)
    inverse = length.reciprocal_().nan_to_num_(0, 0, 0)
    return x * inverse, inverse


def _through_unit(gradient: Tensor, rows: Tensor, inverse: Tensor | None) -> Tensor:
    """The gradient of x, from that of x / |x|; ``inverse`` None: the rows were not divided."""
    if inverse is None:
        return gradient
    along = (gradient * rows).sum(1, keepdim=True)
    return torch.addcmul(gradient, rows, along, value=-1).mul_(inverse)


def _times(matrix: Tensor, rows: Tensor, factor: float, like: Tensor) -> Tensor:
    """``factor M rows``; ``like`` has the shape of the result."""
    return torch.addmm(like, matrix, rows, beta=0, alpha=factor)


def _both_ways(matrix: Tensor, rows: Tensor, factor: float = 1) -> Tensor:
    """``factor (M + M^T) rows``; for a large one, two products are faster than the sum."""
    if matrix.shape[0] <= 512:
        return _times(matrix + matrix.T, rows, factor, rows)
    return torch.addmm(_times(matrix, rows, factor, rows), matrix.T, rows, alpha=factor)
