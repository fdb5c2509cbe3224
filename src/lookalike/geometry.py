"""Pair matrices: similarities, distances, who is compared with whom.

The one place that builds anchors x candidates matrices. Gradients are written out where that
saves work; nothing here waits for the device.
"""

from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from lookalike.errors import BadInput
from lookalike.labels import Labels, Overlap, agreement, as_tensor

if TYPE_CHECKING:
    from lookalike.distances import Distance

__all__ = [
    "Relations",
    "attach",
    "compact",
    "dot",
    "euclidean",
    "in_full_precision",
    "log1p_sum_exp",
    "log_sum_exp",
    "mean_of_positive",
    "relate",
    "unit",
]


class Relations(NamedTuple):
    """Every anchor against every candidate.

    A loss reads ``same * valid`` as the weight of a pair as a positive, and ``(1 - same) * valid``
    as its weight as a negative.
    """

    similarity: Tensor
    """[anchors, candidates]; larger is closer (for a distance: minus the distance)."""
    same: Tensor
    """Float: 1 one class, 0 two, between: mixed or multi-label."""
    valid: Tensor
    """False: not a pair (itself, or dropped by a miner). Float: how often a miner named it."""
    among: Tensor | None = None
    """[candidates, candidates] similarities, for the losses that ask for them (``among``)."""

    @property
    def positives(self) -> Tensor:
        """How much each pair counts as a positive."""
        return self.same * self.valid

    @property
    def negatives(self) -> Tensor:
        """How much each pair counts as a negative."""
        return (1 - self.same) * self.valid


def relate(
    embeddings: Tensor,
    labels: Labels | None,
    ref_emb: Tensor | None = None,
    ref_labels: Labels | None = None,
    distance: "Distance | None" = None,
    overlap: Overlap = "any",
    *,
    self_pairs: bool = False,
    among: bool = False,
) -> Relations:
    """The relations of ``embeddings`` to themselves, or to ``ref_emb``.

    Without ``ref_emb`` (or when it is ``embeddings`` itself) an image is no candidate of its own,
    unless ``self_pairs``. ``distance`` defaults to the cosine. Half precision is raised to float32.
    ``labels`` may be None where a miner says which pairs are positive; ``same`` is then 0.

    >>> relate(torch.eye(2), torch.tensor([7, 7])).valid
    tensor([[False,  True],
            [ True, False]])
    """
    if distance is None:
        from lookalike.distances import CosineSimilarity

        distance = CosineSimilarity()
    if embeddings.ndim != 2:
        raise BadInput(f"embeddings must be rows, [N, D]; these are {tuple(embeddings.shape)}")
    anchors = in_full_precision(embeddings)
    alone = ref_emb is None or ref_emb is embeddings
    candidates = anchors if ref_emb is None or alone else in_full_precision(ref_emb)
    similarity = distance.similarity(anchors, None if alone else candidates)
    if labels is None:
        same = torch.zeros_like(similarity)
    else:
        same = _agreement(labels, None if alone else ref_labels, similarity, overlap)
    if alone and not self_pairs:
        valid = torch.ones(similarity.shape, dtype=torch.bool, device=similarity.device)
        valid.fill_diagonal_(False)
    else:
        valid = torch.ones((), dtype=torch.bool, device=similarity.device).expand(similarity.shape)
    if alone:
        return Relations(similarity, same, valid, similarity)
    return Relations(similarity, same, valid, distance.similarity(candidates) if among else None)


def _agreement(
    labels: Labels, ref_labels: Labels | None, similarity: Tensor, overlap: Overlap
) -> Tensor:
    numbers: dict[str, int] = {}
    rows = as_tensor(labels, numbers).to(similarity.device)
    columns = rows if ref_labels is None else as_tensor(ref_labels, numbers).to(similarity.device)
    if rows.shape[0] != similarity.shape[0] or columns.shape[0] != similarity.shape[1]:
        raise BadInput(
            f"{similarity.shape[0]} x {similarity.shape[1]} embeddings came with "
            f"{rows.shape[0]} x {columns.shape[0]} labels; every embedding needs one"
            + (" (give ref_labels with ref_emb)" if ref_labels is None else "")
        )
    return agreement(rows, columns, overlap).to(similarity.dtype)


def in_full_precision(values: Tensor) -> Tensor:
    """Half precision as float32; float32 and float64 unchanged."""
    return values.float() if values.dtype in (torch.float16, torch.bfloat16) else values


class _Unit(torch.autograd.Function):
    """x / |x|; a zero vector stays zero, and gets no gradient."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        norm = torch.linalg.vector_norm(x, dim=1, keepdim=True)
        inverse = norm.clamp_min(1e-12).reciprocal_().mul_(norm > 0)
        rows = x * inverse
        ctx.save_for_backward(rows, inverse)
        return rows

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        rows, inverse = ctx.saved_tensors
        along = (gradient * rows).sum(1, keepdim=True)
        return torch.addcmul(gradient, rows, along, value=-1).mul_(inverse)


class _Gram(torch.autograd.Function):
    """x x^T, with one product instead of two on the way back."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x @ x.T

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return torch.mm(gradient + gradient.T, x)


class _SquaredToRoot(torch.autograd.Function):
    """sqrt of squared distances; where the distance is 0 so is the gradient."""

    @staticmethod
    def forward(ctx: Any, squared: Tensor) -> Tensor:
        root = squared.clamp_min(0).sqrt_()
        ctx.save_for_backward(root)
        return root

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        (root,) = ctx.saved_tensors
        return (gradient / root).mul_(0.5).masked_fill_(root == 0, 0)


class _Attach(torch.autograd.Function):
    """A value whose gradient is already known."""

    @staticmethod
    def forward(ctx: Any, similarity: Tensor, value: Tensor, gradient: Tensor) -> Tensor:
        ctx.save_for_backward(gradient)
        return value.clone()

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        (known,) = ctx.saved_tensors
        return gradient * known, None, None


def attach(similarity: Tensor, value: Tensor, gradient: Tensor) -> Tensor:
    """``value`` as a function of ``similarity``, with this gradient.

    For losses that get value and gradient in one pass without a tape.
    """
    attached: Tensor = _Attach.apply(similarity, value, gradient)
    return attached


def unit(x: Tensor) -> Tensor:
    """Rows of length 1 (zero rows stay zero, with zero gradient)."""
    rows: Tensor = _Unit.apply(x)
    return rows


def dot(x: Tensor, y: Tensor | None = None) -> Tensor:
    """All inner products of the rows of ``x`` with those of ``y``, or with one another."""
    if y is not None:
        return x @ y.T
    products: Tensor = _Gram.apply(x)
    return products


def euclidean(
    x: Tensor, y: Tensor | None = None, *, unit_rows: bool = False, squared: bool = False
) -> Tensor:
    """All Euclidean distances of the rows, from inner products: |x|^2 + |y|^2 - 2 x.y."""
    products = dot(x, y)
    if unit_rows:
        squares = products.mul(-2).add_(2)
    else:
        lengths = (x * x).sum(1)
        others = lengths if y is None else (y * y).sum(1)
        squares = lengths.unsqueeze(1) + others - 2 * products
    if squared:
        return squares.clamp_min(0)
    roots: Tensor = _SquaredToRoot.apply(squares)
    return roots


def log1p_sum_exp(values: Tensor, weights: Tensor) -> Tensor:
    """log(1 + sum_j w_j e^v_j) per row; weight 0 leaves a term out."""
    terms = values + weights.log()
    return torch.cat([torch.zeros_like(terms[:, :1]), terms], 1).logsumexp(1)


def log_sum_exp(values: Tensor, weights: Tensor) -> Tensor:
    """log(sum_j w_j e^v_j) per row; 0, with zero gradient, for a row without terms."""
    terms = values + weights.log()
    top = terms.detach().amax(1, keepdim=True).clamp_min(torch.finfo(terms.dtype).min)
    total = (terms - top).exp().sum(1)
    some = total > 0
    return torch.where(some, total.where(some, 1).log() + top.squeeze(1), 0)


def mean_of_positive(values: Tensor, weights: Tensor | None = None) -> Tensor:
    """The weighted mean of the values above zero; 0 where there is none."""
    counted = values > 0 if weights is None else (values > 0) * weights
    total = values.relu() if weights is None else values.relu() * weights
    return total.sum() / counted.sum().clamp_min(torch.finfo(values.dtype).tiny)


def compact(weights: Tensor) -> tuple[Tensor, Tensor]:
    """The columns of non-zero weight in each row, [rows, K], and their weights (0: padding).

    On the CPU, where looking costs nothing, K is the largest number in a row. Elsewhere, and when
    compiling, K is the number of columns, so that nothing waits for the device.
    """
    if weights.device.type != "cpu" or torch.compiler.is_compiling() or weights.numel() == 0:
        columns = torch.arange(weights.shape[1], device=weights.device).expand(weights.shape)
        return columns, weights
    width = max(1, int((weights != 0).sum(1).max()))
    found = torch.topk(weights, width, dim=1, sorted=False)
    return found.indices, found.values
