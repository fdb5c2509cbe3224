"""The embeddings and labels that a caller gives: checked, converted, normalised."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lookalike.errors import BadInput, did_you_mean
from lookalike.labels import check_shape

ArrayLike = Tensor | NDArray[Any] | Sequence[Any]
DistanceName = Literal["cosine", "l2"]
LabelArray = NDArray[Any]


def check_choice(value: str, choices: Any, what: str) -> None:
    """Raise if ``value`` is not one of the strings of the literal type ``choices``."""
    if value not in get_args(choices):
        raise BadInput(f"there is no {what} '{value}'; {did_you_mean(value, get_args(choices))}")


def embeddings_of(values: ArrayLike, what: str, distance: DistanceName = "cosine") -> Tensor:
    """The rows of ``values`` as float32, of unit length for the cosine.

    Lengths are taken in double precision, so that rows that were equal stay equal and a float64
    or half-precision input loses nothing but its last rounding. A row of zeros stays zero.
    """
    tensor = values if isinstance(values, Tensor) else _tensor(values, what)
    tensor = tensor.detach()
    if tensor.device.type not in ("cpu", "cuda"):  # others have no double precision
        tensor = tensor.cpu()
    if tensor.ndim != 2:
        raise BadInput(f"{what} must be a table of rows, but has shape {tuple(tensor.shape)}")
    if tensor.shape[1] == 0:
        raise BadInput(f"{what} have no columns (shape {tuple(tensor.shape)})")
    if tensor.dtype.is_complex:
        raise BadInput(f"{what} must be real numbers, not {tensor.dtype}")
    if tensor.dtype != torch.float64:
        tensor = tensor.float()
    _check_finite(tensor, what)
    if distance == "cosine":
        tensor = unit_rows(tensor)
    tensor = tensor.float().contiguous()
    if distance == "l2":
        _check_finite(tensor, f"{what} (in single precision)")
    return tensor


def labels_of(values: ArrayLike, what: str, *, compared: bool = False) -> LabelArray:
    """Labels as a numpy array: one label per item (1-D) or a multi-hot table (2-D, 0 or 1).

    ``compared``: by a function of the caller's, so they must be numbers, but may be any rows.
    """
    if isinstance(values, Tensor):
        values = values.detach().cpu().numpy()
    try:
        array = np.asarray(values)
    except ValueError:
        raise BadInput(f"{what} must be one label per item, or a table of 0 and 1") from None
    check_shape(array.shape, len(array) if array.ndim else 0, what)
    if compared:
        if array.dtype.kind not in "biuf":
            raise BadInput(f"{what} that a label_comparison compares must be numbers")
        return array
    if array.ndim == 2:
        if array.dtype.kind not in "biuf" or not np.isin(array, (0, 1)).all():
            raise BadInput(f"{what} in two dimensions must be multi-hot: only 0 and 1")
        return array.astype(bool)
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise BadInput(f"{what} hold values that are not finite")
    if array.dtype == object:
        array = array.astype(str)
    return array


def unit_rows(embeddings: Tensor, dtype: torch.dtype = torch.float32, block: int = 4096) -> Tensor:
    """Rows divided by their length, which is computed in double precision; zero rows stay zero.

    Args:
        embeddings: One row per item, of any floating type.
        dtype: Type of the result.
        block: Rows at a time, to save memory.

    Returns:
        A new tensor of the same shape.
    """
    unit = torch.empty_like(embeddings, dtype=dtype)
    for part, out in zip(torch.split(embeddings, block), torch.split(unit, block), strict=True):
        exact = part.double()
        if embeddings.dtype == torch.float64:  # squares of very large or small numbers overflow
            largest = exact.abs().amax(dim=1, keepdim=True)
            exact = exact / largest.clamp_min(torch.finfo(torch.float64).tiny)
        lengths = torch.linalg.vector_norm(exact, dim=1, keepdim=True)
        out.copy_(exact / lengths.clamp_min_(torch.finfo(torch.float64).tiny))
    return unit


@contextmanager
def full_precision() -> Iterator[None]:
    """Matrix products in true single precision, whatever the program has chosen for training."""
    chosen = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(chosen)


def _tensor(values: ArrayLike, what: str) -> Tensor:
    try:
        array = np.asarray(values)
        if array.dtype.kind not in "biuf":
            raise TypeError
        if array.dtype.itemsize > 8:  # torch has no long double
            array = array.astype(np.float64)
        return torch.from_numpy(np.ascontiguousarray(array))
    except (TypeError, ValueError):
        raise BadInput(f"{what} must be a table of numbers") from None


def _check_finite(tensor: Tensor, what: str) -> None:
    bad = ~torch.isfinite(tensor).all(dim=1)
    if bad.any():
        row = int(bad.nonzero()[0])
        raise BadInput(
            f"{what} hold {int(bad.sum())} row(s) that are not finite (NaN or infinite), "
            f"the first is row {row}"
        )
