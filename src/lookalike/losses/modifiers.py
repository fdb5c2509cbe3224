"""Modifiers of any loss: prefixes of an embedding that work alone, and what a teacher knows."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.functional import kl_div, log_softmax

from lookalike.errors import BadInput
from lookalike.labels import Labels
from lookalike.losses.proxies import ProxyLoss
from lookalike.miners.mined import Indices
from lookalike.ops.rows import check_rows, in_full_precision, normalize_rows, products

__all__ = ["MatryoshkaLoss", "similarity_divergence"]


class MatryoshkaLoss(nn.Module):
    """Any loss, of several prefixes of each embedding: ``sum_k c_k L(unit(x[:m_k]))``.

    An index may then keep the first numbers of a vector only (Kusupati et al., NeurIPS 2022,
    https://arxiv.org/abs/2205.13147). Learned class vectors are cut as the embeddings are, and each
    prefix is brought to unit length again. A miner chooses by the whole embeddings.

    Args:
        loss: A loss over images, or one with learned class vectors.
        dims: The lengths of the prefixes.
        weights: How much each counts; None: 1 each.

    >>> from lookalike.losses import ContrastiveLoss
    >>> rows = torch.tensor([[1.0, 0.0, 0.0], [1.0, 0.0, 1.0]])
    >>> loss = MatryoshkaLoss(ContrastiveLoss(neg_margin=2), dims=(2, 3))
    >>> loss(rows, torch.tensor([0, 1]))  # 2 from equal prefixes, 2 - sqrt(2 - sqrt(2)) from all
    tensor(3.2346)
    """

    def __init__(
        self,
        loss: nn.Module,
        dims: Sequence[int] = (32, 64, 128),
        weights: Sequence[float] | None = None,
    ) -> None:
        super().__init__()
        sizes = sorted(set(dims))
        if not sizes or sizes != list(dims) or sizes[0] < 1:
            raise BadInput(f"dims must be different lengths from 1, in order, not {tuple(dims)}")
        if weights is not None and len(weights) != len(sizes):
            raise BadInput(f"{len(weights)} weights were given for {len(sizes)} dims")
        if isinstance(loss, ProxyLoss) and not hasattr(loss, loss.columns or "proxies"):
            raise BadInput(f"{type(loss).__name__} learns more than class vectors, to be cut")
        self.loss = loss
        self.dims = tuple(sizes)
        self.weights = (1.0,) * len(sizes) if weights is None else tuple(weights)

    def extra_repr(self) -> str:
        """The lengths and their weights."""
        return f"dims={self.dims}, weights={self.weights}"

    def forward(
        self,
        embeddings: Tensor,
        labels: Labels | None = None,
        indices_tuple: Indices | None = None,
        ref_emb: Tensor | None = None,
        ref_labels: Labels | None = None,
    ) -> Tensor:
        """The loss of a batch.

        Args:
            embeddings: [N, D], D at least the longest prefix.
            labels: One per embedding.
            indices_tuple: What a miner chose.
            ref_emb: The candidates, where they are not the batch itself.
            ref_labels: Their labels.

        Returns:
            A scalar.
        """
        check_rows(embeddings, None)
        if embeddings.shape[1] < self.dims[-1]:
            raise BadInput(
                f"embeddings have {embeddings.shape[1]} columns, less than dims={self.dims} need"
            )
        given = [labels, indices_tuple, ref_emb, ref_labels]
        while given and given[-1] is None:  # a loss of another package may not take them
            given.pop()
        values = []
        for size, weight in zip(self.dims, self.weights, strict=True):
            if ref_emb is not None:
                given[2] = _prefix(ref_emb, size)
            values.append(weight * self._of_prefix(_prefix(embeddings, size), *given))
        return torch.stack(values).sum()

    def _of_prefix(self, rows: Tensor, *given: object) -> Tensor:
        """The loss of rows that were cut; class vectors are cut alike, by zeros in what is left."""
        if not isinstance(self.loss, ProxyLoss):
            value: Tensor = self.loss(rows, *given)
            return value
        loss, size = self.loss, rows.shape[1]
        name, kept = loss.columns or "proxies", torch.arange(loss.embedding_size) < size
        vectors, kept = getattr(loss, name), kept.to(rows.device)
        cut = vectors * (kept.unsqueeze(1) if loss.columns else kept)
        rows = nn.functional.pad(rows, (0, loss.embedding_size - size))
        return functional_call(loss, {name: cut}, (rows, *given))  # type: ignore[no-any-return]


def _prefix(rows: Tensor, size: int) -> Tensor:
    """The first ``size`` numbers of each row, at length 1."""
    return normalize_rows(in_full_precision(rows[:, :size]))


def similarity_divergence(student: Tensor, teacher: Tensor, temperature: float = 1) -> Tensor:
    """How far a student's similarities within a batch are from a teacher's.

    ``T^2 / n sum_i KL(softmax(S'_i / T) || softmax(S_i / T))`` with S and S' the cosines of all
    images of the student and of the teacher, each image with itself too; no gradient goes to the
    teacher. The distillation of S2SD (Roth et al., ICML 2021, https://arxiv.org/abs/2009.08348).

    Args:
        student: [N, D] embeddings.
        teacher: [N, any] embeddings of the same images.
        temperature: T; a larger one looks at all similarities alike.

    Returns:
        A scalar.

    >>> similarity_divergence(torch.eye(3), torch.eye(3))
    tensor(0.)
    """
    if not temperature > 0:
        raise BadInput(f"the temperature is {temperature}; it must be above 0")
    check_rows(student, None, "student")
    check_rows(teacher, None, "teacher")
    if len(student) != len(teacher):
        raise BadInput(f"{len(student)} rows of the student, but {len(teacher)} of the teacher")
    if len(student) == 0:
        return in_full_precision(student).sum()
    rows, target = in_full_precision(student), in_full_precision(teacher.detach())
    found = log_softmax(products(rows, unit_rows=True) / temperature, 1)
    wanted = log_softmax(products(target, unit_rows=True) / temperature, 1)
    divergence = kl_div(found, wanted.to(found.dtype), reduction="batchmean", log_target=True)
    return temperature**2 * divergence
