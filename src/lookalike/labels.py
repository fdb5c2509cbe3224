"""Labels of any kind, and which of them agree.

A label is an integer, a string, or a multi-hot row; ``agreement`` compares two lists of
them.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from lookalike.errors import BadInput
from lookalike.ops.device import can_sync
from lookalike.registry import Registry

__all__ = [
    "Comparison",
    "Labels",
    "agreement",
    "as_tensor",
    "check_range",
    "check_shape",
    "class_rows",
    "comparison_of",
    "encode",
    "jaccard",
]

Labels: TypeAlias = Tensor | np.ndarray[Any, Any] | Sequence[str] | Sequence[int]
Comparison: TypeAlias = Callable[[Tensor, Tensor], Tensor]
"""Whether labels agree, or how much (0 to 1): tensors that broadcast in, one value per pair out."""


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
        tensor = labels
    else:
        array = np.asarray(labels)
        if array.dtype.kind in "USO" and array.ndim == 1:
            tensor = encode([str(name) for name in array.tolist()], known)
        elif array.dtype.kind in "USO":
            raise BadInput(f"{what} that are strings must be a list, one string per embedding")
        else:
            tensor = torch.as_tensor(array)
    if tensor.ndim != 1 or tensor.shape[0] != rows:
        check_shape(tuple(tensor.shape), rows, what)
    return tensor


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


def class_rows(labels: Tensor, num_classes: int, like: Tensor) -> Tensor:
    """How much of each class an embedding is, [N, num_classes], on the device of ``like``.

    Labels are class indices, or rows of that shape. Where looking at them would wait for the
    device, an index out of range gives NaN instead of an error.

    >>> class_rows(torch.tensor([1, 0]), 3, torch.empty(0))
    tensor([[0., 1., 0.],
            [1., 0., 0.]])
    """
    if labels.ndim == 2:
        if labels.shape[1] != num_classes:
            raise BadInput(
                f"labels are rows of {labels.shape[1]} classes, but the loss has {num_classes}"
            )
        return labels.to(like)
    check_whole(labels)
    columns = labels.to(like.device, torch.long).unsqueeze(1)
    same = like.new_zeros(labels.shape[0], num_classes)
    if can_sync(columns):
        try:
            return same.scatter_(1, columns, 1)
        except RuntimeError:
            check_range(columns, num_classes)
            raise
    inside = (columns >= 0) & (columns < num_classes)
    one = torch.where(inside, 1.0, torch.nan).to(same.dtype)
    return same.scatter_(1, columns.clamp(0, num_classes - 1), one)


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


def agreement(labels: Tensor, others: Tensor, comparison: Comparison | None = None) -> Tensor:
    """Which labels agree, [N, M]: truth values, or how much as numbers from 0 to 1.

    Without a comparison: class indices that are equal, multi-hot rows that share a class. It gets
    ``labels`` as [N, 1] and ``others`` as [1, M], rows as [N, 1, K] and [1, M, K].

    >>> rows = torch.tensor([[1, 1, 0], [0, 1, 1], [1, 0, 0]])
    >>> agreement(rows, rows[2:]).tolist()
    [[True], [False], [True]]
    >>> ages = torch.tensor([20, 24, 60])
    >>> agreement(ages, ages[1:], lambda x, y: (x - y).abs() < 5).tolist()
    [[True, False], [True, False], [False, True]]
    """
    if comparison is None:
        comparison = torch.eq if labels.ndim == 1 and others.ndim == 1 else shares_a_class
    same = comparison(labels.unsqueeze(1), others.unsqueeze(0))
    if same.shape != (len(labels), len(others)):
        raise BadInput(
            f"label_comparison gives a tensor of shape {tuple(same.shape)}; it must compare each "
            f"of {len(labels)} labels with each of {len(others)}: ({len(labels)}, {len(others)})"
        )
    return same


def shares_a_class(labels: Tensor, others: Tensor) -> Tensor:
    """Whether multi-hot rows [N, 1, classes] and [1, M, classes] share a class."""
    return _shared(labels, others) > 0


def jaccard(labels: Tensor, others: Tensor) -> Tensor:
    """The shared classes of multi-hot rows over all classes of both.

    >>> rows = torch.tensor([[1, 1, 0], [0, 1, 1]])
    >>> agreement(rows, rows, jaccard)
    tensor([[1.0000, 0.3333],
            [0.3333, 1.0000]])
    """
    if labels.ndim == 2:  # class indices
        return (labels == others).float()
    shared = _shared(labels, others)
    union = labels.float().sum(2) + others.float().sum(2) - shared
    return shared / union.clamp(min=1)


def _shared(labels: Tensor, others: Tensor) -> Tensor:
    """How many classes multi-hot rows share."""
    if labels.ndim != 3 or others.ndim != 3 or labels.shape[2] != others.shape[2]:
        raise BadInput(
            "labels of different kinds cannot be compared; give one integer or string per "
            "embedding, or multi-hot rows of one length"
        )
    return labels.squeeze(1).float() @ others.squeeze(0).float().T


def comparison_of(comparison: Comparison | str | None) -> Comparison | None:
    """A comparison as it is, ``jaccard``, or the one that ``package.module:function`` names."""
    if not isinstance(comparison, str):
        return comparison
    if comparison == "jaccard":
        return jaccard
    if ":" not in comparison:
        raise BadInput(
            f"label_comparison = '{comparison}' is invalid: write jaccard, or "
            "package.module:function"
        )
    named: Comparison = Registry("label comparisons").find(comparison).build
    return named
