"""Rows of numbers: unit length, inner products, Euclidean distances."""

import math

import torch
from torch import Tensor

from lookalike.errors import BadInput

__all__ = [
    "check_rows",
    "euclidean",
    "in_full_precision",
    "normalize_rows",
    "products",
    "safe_sqrt",
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
    bound = lengths * rounding_error(squared.dtype, dimension)
    if isinstance(bound, Tensor):
        return squared.where(squared > bound, 0)
    return torch.threshold(squared, bound, 0)


def rounding_error(dtype: torch.dtype, dimension: int) -> float:
    """By how much an inner product of so many terms may be off, relative to the lengths."""
    return torch.finfo(dtype).eps * (4 + math.sqrt(dimension))


def safe_sqrt(squared: Tensor) -> Tensor:
    """The square root; 0 with gradient 0 where there is nothing above 0.

    >>> safe_sqrt(torch.tensor([0.0, 4.0]))
    tensor([0., 2.])
    """
    positive = squared > 0
    root: Tensor = squared.where(positive, 1).sqrt() * positive
    return root


def normalize_rows(x: Tensor) -> Tensor:
    """Rows of length 1 (zero rows stay zero, with zero gradient)."""
    length: Tensor = torch.linalg.vector_norm(x, dim=1, keepdim=True)
    return x / length.where(length > 0, torch.inf)


def products(x: Tensor, y: Tensor | None = None, *, unit_rows: bool = False) -> Tensor:
    """All inner products [N, M] of the rows of ``x`` with those of ``y``, or with one another.

    ``unit_rows``: of the rows at length 1 (cosines).
    """
    if unit_rows:
        x, y = normalize_rows(x), None if y is None else normalize_rows(y)
    return x @ (x if y is None else y).T


def euclidean(
    x: Tensor, y: Tensor | None = None, *, unit_rows: bool = False, squared: bool = False
) -> Tensor:
    """All Euclidean distances [N, M] of the rows, from inner products: ``|x|^2 + |y|^2 - 2 x.y``.

    0 with gradient 0 where two rows differ by no more than rounding. ``y`` None is ``x``;
    ``unit_rows``: of the rows at length 1.
    """
    if unit_rows:
        lengths: Tensor | float = 2.0
        squares = 2 - 2 * products(x, y, unit_rows=True)
    else:
        others = x if y is None else y
        lengths = (x * x).sum(1, keepdim=True) + (others * others).sum(1)
        squares = lengths - 2 * x @ others.T
    if squared:
        return without_rounding(squares, lengths, x.shape[1])
    bound = lengths * rounding_error(squares.dtype, x.shape[1])
    if isinstance(bound, Tensor):
        return safe_sqrt(squares.where(squares > bound, 0))
    # 0, and not the root of the bound, with gradient 0, in the fewest passes over the matrix
    root: Tensor = squares.clamp_min(bound).sqrt()
    return torch.threshold(root, math.sqrt(bound) * (1 + 1e-6), 0)
