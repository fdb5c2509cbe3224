"""Labels of any kind, and which of them agree.

A label is an integer, a string, or a multi-hot row; ``agreement`` turns two lists of them into
``same``, the matrix that the losses read.
"""

from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from torch import Tensor

from lookalike.errors import BadInput, did_you_mean
from lookalike.ops.sync import can_sync
from lookalike.registry import Registry

__all__ = [
    "Comparison",
    "Labels",
    "Overlap",
    "agreement",
    "as_tensor",
    "check_range",
    "check_shape",
    "class_rows",
    "compared",
    "comparison_of",
    "encode",
]

Labels: TypeAlias = Tensor | np.ndarray[Any, Any] | Sequence[str] | Sequence[int]
Overlap: TypeAlias = Literal["any", "jaccard"]
Comparison: TypeAlias = Callable[[Tensor, Tensor], Tensor]
"""Whether labels agree, or how much (0 to 1): tensors that broadcast in, one value per pair out."""

_FEW = 64 * 64


def encode(labels: Sequence[str], known: dict[str, int] | None = None) -> Tensor:
    """Numbers for names, counted in order of first sight; ``known`` is kept up to date.

    >>> encode(["wren", "robin", "wren"])
    tensor([0, 1, 0])
    """
    numbers = {} if known is None else known
    return torch.tensor([numbers.setdefault(str(name), len(numbers)) for name in labels])


def as_tensor(
    labels: Labels, rows: int, known: dict[str, int] | None = None, what: str = "labels"
) -> Tensor:
    """The labels of ``rows`` embeddings as a tensor [rows] or [rows, classes].

    Strings are numbered (see ``encode``), integers unchanged. Only shape and type are looked at, so
    nothing waits for the device. ``what`` is what an error message calls the labels.

    >>> as_tensor([16777217, 16777216], 2)
    tensor([16777217, 16777216])
    """
    if isinstance(labels, Tensor):
        found = labels
    else:
        array = np.asarray(labels)
        if array.dtype.kind in "USO" and array.ndim == 1:
            found = encode([str(name) for name in array.tolist()], known)
        elif array.dtype.kind in "USO":
            raise BadInput(f"{what} that are strings must be a list, one string per embedding")
        else:
            found = torch.as_tensor(array)
    if found.ndim != 1 or found.shape[0] != rows:
        check_shape(tuple(found.shape), rows, what)
    return found


def check_shape(shape: tuple[int, ...], rows: int, what: str = "labels") -> None:
    """Refuse what is neither one label per embedding nor multi-hot rows of at least two classes."""
    if len(shape) == 2 and shape[1] == 1:
        raise BadInput(
            f"{what} have shape {shape}; give one label per embedding, shape ({shape[0]},): "
            f"{what}.squeeze(1)"
        )
    if len(shape) not in (1, 2):
        raise BadInput(
            f"{what} have shape {shape}; give one label per embedding, or multi-hot rows"
        )
    if shape[0] != rows:
        raise BadInput(f"there are {rows} embeddings but {shape[0]} {what}; each needs one")


def class_rows(labels: Tensor, num_classes: int, like: Tensor, *, dim: int = 1) -> Tensor:
    """How much of each class an embedding is, [N, num_classes], on the device of ``like``.

    Labels are class indices, or rows of that shape. Where looking at them would wait for the
    device, an index out of range gives NaN instead of an error. ``dim`` 0: [num_classes, N].

    >>> class_rows(torch.tensor([1, 0]), 3, torch.empty(0))
    tensor([[0., 1., 0.],
            [1., 0., 0.]])
    """
    if labels.ndim == 2:
        if labels.shape[1] != num_classes:
            raise BadInput(
                f"labels are rows of {labels.shape[1]} classes, but the loss has {num_classes}"
            )
        return labels.to(like) if dim else labels.to(like).T
    check_whole(labels)
    given = labels.to(like.device, torch.long).unsqueeze(dim)
    number = labels.shape[0]
    same = like.new_zeros((number, num_classes) if dim else (num_classes, number))
    if can_sync(given):
        try:
            return same.scatter_(dim, given, 1)
        except RuntimeError:
            check_range(given, num_classes)
            raise
    inside = (given >= 0) & (given < num_classes)
    one = torch.where(inside, 1.0, torch.nan).to(same.dtype)
    return same.scatter_(dim, given.clamp(0, num_classes - 1), one)


def check_whole(labels: Tensor) -> None:
    """Refuse class indices that are no integers."""
    kind = labels.dtype
    if kind.is_floating_point or kind.is_complex or kind == torch.bool:
        raise BadInput(f"class indices must be integers, not {labels.dtype}; use labels.long()")


def check_range(labels: Tensor, num_classes: int) -> None:
    """Refuse class indices of a wrong type, or out of range where looking costs nothing."""
    check_whole(labels)
    if not can_sync(labels) or not labels.numel():
        return
    least, most = (int(bound) for bound in labels.aminmax())
    if least < 0 or most >= num_classes:
        wrong = least if least < 0 else most
        raise BadInput(
            f"label {wrong} is out of range: the loss has num_classes = {num_classes}, "
            f"so labels go from 0 to {num_classes - 1}"
        )


def agreement(
    labels: Tensor, others: Tensor, overlap: Overlap = "any", dtype: torch.dtype = torch.float32
) -> Tensor:
    """``same[i, j]``: 1 where the labels agree, 0 where not; for multi-hot rows by their overlap.

    ``any``: 1 where two rows share a label. ``jaccard``: the shared part of their union.

    >>> rows = torch.tensor([[1, 1, 0], [0, 1, 1]])
    >>> agreement(rows, rows, "jaccard")
    tensor([[1.0000, 0.3333],
            [0.3333, 1.0000]])
    """
    if labels.ndim == 1 and others.ndim == 1:
        return _equal(labels, others, dtype)
    if labels.ndim != 2 or others.ndim != 2 or labels.shape[1] != others.shape[1]:
        raise BadInput(
            f"labels of shape {tuple(labels.shape)} and {tuple(others.shape)} cannot be compared; "
            "give one integer or string per embedding, or multi-hot rows of one length"
        )
    rows, columns = labels.float(), others.float()
    shared = rows @ columns.T
    if overlap == "any":
        return (shared > 0).to(dtype)
    if overlap == "jaccard":
        union = rows.sum(1, keepdim=True) + columns.sum(1) - shared
        return (shared / union.clamp(min=1)).to(dtype)
    raise BadInput(f"there is no overlap '{overlap}'; " + did_you_mean(overlap, ("any", "jaccard")))


def comparison_of(given: Comparison | str | None) -> Comparison | None:
    """A comparison of labels as it is, or the one that ``package.module:function`` names."""
    if not isinstance(given, str):
        return given
    if ":" not in given:
        raise BadInput(f"label_comparison = '{given}' is invalid: write package.module:function")
    found: Comparison = Registry("label comparisons").find(given).build
    return found


def compared(labels: Tensor, others: Tensor, comparison: Comparison) -> Tensor:
    """[N, M] what a comparison says of all pairs of labels, truth values or numbers.

    It gets ``labels`` as [N, 1] and ``others`` as [1, M], rows as [N, 1, K] and [1, M, K].

    >>> ages = torch.tensor([20, 24, 60])
    >>> compared(ages, ages[1:], lambda x, y: (x - y).abs() < 5)
    tensor([[ True, False],
            [ True, False],
            [False,  True]])
    """
    found = comparison(labels.unsqueeze(1), others.unsqueeze(0))
    if found.shape != (len(labels), len(others)):
        raise BadInput(
            f"label_comparison gives a tensor of shape {tuple(found.shape)}; it must compare each "
            f"of {len(labels)} labels with each of {len(others)}: ({len(labels)}, {len(others)})"
        )
    return found


def _equal(labels: Tensor, others: Tensor, dtype: torch.dtype) -> Tensor:
    """1 where two numbers are the same, 0 elsewhere.

    On a CPU truth values are slow: for many pairs ten times slower than comparing floats into
    floats, which is exact as long as those of one side are (below 2^24 in float32; a larger one
    rounds to no less).
    """
    height, width = labels.shape[0], others.shape[0]
    if height * width > _FEW and can_sync(labels) and can_sync(others):
        exact = 2 / torch.finfo(dtype).eps
        least, most = labels.aminmax()
        if -exact < least.item() and most.item() < exact:
            rows = labels.to(dtype)
            columns = rows if others is labels else others.to(dtype)
            found = torch.empty(height, width, dtype=dtype)
            return torch.eq(rows.unsqueeze(1), columns, out=found)
    return (labels.unsqueeze(1) == others).to(dtype)
