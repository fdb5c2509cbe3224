"""Labels of any kind, and which of them agree.

A label is an integer, a string, or a multi-hot row; ``agreement`` turns two lists of them into
``same``, the matrix that the losses read.
"""

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from torch import Tensor

from lookalike.errors import BadInput, nearest

__all__ = ["Labels", "Overlap", "agreement", "as_tensor", "encode"]

Labels: TypeAlias = Tensor | np.ndarray[Any, Any] | Sequence[str] | Sequence[int]
Overlap: TypeAlias = Literal["any", "jaccard"]


def encode(labels: Sequence[str], known: dict[str, int] | None = None) -> Tensor:
    """Numbers for names, counted in order of first sight; ``known`` is kept up to date.

    >>> encode(["wren", "robin", "wren"])
    tensor([0, 1, 0])
    """
    numbers = {} if known is None else known
    return torch.tensor([numbers.setdefault(str(name), len(numbers)) for name in labels])


def as_tensor(labels: Labels, known: dict[str, int] | None = None) -> Tensor:
    """The labels as a tensor: strings are numbered (see ``encode``), numbers are kept as they are.

    >>> as_tensor([16777217, 16777216])
    tensor([16777217, 16777216])
    """
    if isinstance(labels, Tensor):
        return labels
    array = np.asarray(labels)
    if array.dtype.kind in "USO":
        return encode([str(name) for name in array.tolist()], known)
    return torch.as_tensor(array)


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
            "give one integer or string an image, or multi-hot rows of one length"
        )
    rows, columns = labels.float(), others.float()
    shared = rows @ columns.T
    if overlap == "any":
        return (shared > 0).to(dtype)
    if overlap == "jaccard":
        union = rows.sum(1, keepdim=True) + columns.sum(1) - shared
        return (shared / union.clamp(min=1)).to(dtype)
    raise BadInput(f"there is no overlap '{overlap}'; " + nearest(overlap, ("any", "jaccard")))


def _equal(labels: Tensor, others: Tensor, dtype: torch.dtype) -> Tensor:
    """1 where two numbers are the same, 0 elsewhere.

    On a CPU truth values are slow: ten times slower than comparing floats into floats, which is
    exact as long as those of one side are (below 2^24 in float32; a larger one rounds to no less).
    """
    if labels.device.type == "cpu" and not torch.compiler.is_compiling() and labels.numel():
        exact = 2 / torch.finfo(dtype).eps
        if all(-exact < bound.item() < exact for bound in labels.aminmax()):
            found = torch.empty(len(labels), len(others), dtype=dtype)
            return torch.eq(labels.to(dtype).unsqueeze(1), others.to(dtype), out=found)
    return (labels.unsqueeze(1) == others).to(dtype)
