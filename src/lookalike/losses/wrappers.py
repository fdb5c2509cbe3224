"""Losses made of losses: several of one batch, known pairs or triplets, views, other packages'."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from lookalike.errors import BadInput
from lookalike.labels import Labels
from lookalike.losses.base import Loss, PairLoss
from lookalike.miners.mined import Indices, Mined, chosen_indices, chosen_triplets
from lookalike.ops.rows import in_full_precision
from lookalike.relations import Relations

__all__ = ["FixedPairsLoss", "FixedTripletsLoss", "MultipleLosses", "SelfSupervisedLoss"]


class _OtherLoss(PairLoss):
    """A loss that is called with embeddings, labels and, where a miner chose, indices."""

    module: nn.Module

    def total_loss(self, relations: Relations, mined: Relations | None = None) -> Tensor:
        """What the module says of the embeddings."""
        r = relations
        chosen = chosen_indices(r, mined and chosen_triplets(r, mined)[0])
        references = () if r.ref_emb is None else (r.ref_emb, r.ref_labels)
        indices = () if chosen is None and not references else (chosen,)
        return self.module(r.embeddings, r.labels, *indices, *references)  # type: ignore[no-any-return]


def as_loss(module: Any) -> Loss:
    """One of our losses as it is; one of another package in an adapter."""
    if not callable(module):
        raise BadInput(
            f"a loss must be a torch.nn.Module or a function, not {type(module).__name__}"
        )
    return module if isinstance(module, Loss) else _OtherLoss(module)


class MultipleLosses(nn.Module):
    """The weighted sum of several losses of the same batch, each with its own miner.

    Args:
        losses: By name, or a list; ours or those of other packages.
        miners: By the names of losses, or a list as long, with None for a loss without miner.
        weights: By name, or a list as long; None: 1 each.

    >>> import torch
    >>> from lookalike.losses import ContrastiveLoss, IntraPairVarianceLoss
    >>> loss = MultipleLosses([ContrastiveLoss(), IntraPairVarianceLoss()], weights=[1, 0.5])
    >>> loss(torch.eye(4), torch.tensor([0, 0, 1, 1]))
    tensor(1.4142)
    """

    def __init__(
        self,
        losses: Mapping[str, nn.Module] | Sequence[nn.Module],
        miners: Mapping[str, nn.Module] | Sequence[nn.Module | None] | None = None,
        weights: Mapping[str, float] | Sequence[float] | None = None,
    ) -> None:
        super().__init__()
        self.is_dict = isinstance(losses, Mapping)
        parts = _by_name(losses)
        chosen = {} if miners is None else _matching(miners, losses, "miners")
        self.losses: nn.ModuleDict | nn.ModuleList
        self.losses = nn.ModuleDict(parts) if self.is_dict else nn.ModuleList(parts.values())
        self.miners = nn.ModuleDict({k: miner for k, miner in chosen.items() if miner is not None})
        self.factors = dict.fromkeys(parts, 1.0)
        if weights is not None:
            self.factors = _matching(weights, losses, "weights")
            if self.factors.keys() != parts.keys():
                raise BadInput("weights must be given for each of the losses, or for none")

    @property
    def weights(self) -> dict[str, float] | list[float]:
        """The weight of each loss, as they were given."""
        return self.factors if self.is_dict else list(self.factors.values())

    def forward(
        self, embeddings: Tensor, labels: Labels | None, indices_tuple: Indices | None = None
    ) -> Tensor:
        """The loss of a batch.

        Args:
            embeddings: [N, D].
            labels: One per embedding.
            indices_tuple: For all losses; None where they have miners of their own.

        Returns:
            A scalar.
        """
        if len(self.miners) and indices_tuple is not None:
            raise BadInput("the losses have miners of their own, and take no indices_tuple")
        total: Any = 0
        for name, loss in self.losses.named_children():
            mined = indices_tuple
            if name in self.miners:
                mined = self.miners[name](embeddings, labels)
            total = total + self.factors[name] * loss(embeddings, labels, mined)
        summed: Tensor = total
        return summed


def _by_name(parts: Mapping[str, Any] | Sequence[Any]) -> dict[str, Any]:
    """The parts by name; those of a list by their number."""
    if isinstance(parts, Mapping):
        return dict(parts)
    return {str(number): part for number, part in enumerate(parts)}


def _matching(parts: Any, losses: Any, what: str) -> dict[str, Any]:
    """What is given for the losses, by name; refused where it does not fit them."""
    by_name, names = _by_name(parts), _by_name(losses)
    alike = isinstance(parts, Mapping) == isinstance(losses, Mapping)
    complete = isinstance(parts, Mapping) or len(by_name) == len(names)
    if not (alike and complete and by_name.keys() <= names.keys()):
        raise BadInput(f"{what} must be given as the losses are: by their names, or a list as long")
    return by_name


class FixedPairsLoss(nn.Module):
    """Any loss that needs no labels, of pairs that are known to match or not.

    Row i of ``first`` and row i of ``second`` are a pair, and no others are.

    Args:
        loss: A loss over pairs of images, such as ``ContrastiveLoss``.

    >>> from lookalike.losses import ContrastiveLoss
    >>> loss = FixedPairsLoss(ContrastiveLoss(neg_margin=2))
    >>> loss(torch.eye(2), torch.eye(2).flip(0), torch.tensor([True, False]))
    tensor(2.)
    """

    def __init__(self, loss: nn.Module) -> None:
        super().__init__()
        self.loss = loss

    def forward(self, first: Tensor, second: Tensor, same: Tensor) -> Tensor:
        """The loss of these pairs.

        Args:
            first: [N, D].
            second: [N, D].
            same: [N], True or 1 where the two match.

        Returns:
            A scalar.
        """
        _check_rows(first, second)
        if same.shape != first.shape[:1]:
            raise BadInput(
                f"same has shape {tuple(same.shape)}; give one truth value per pair, "
                f"({len(first)},)"
            )
        match = torch.diag((same > 0).to(in_full_precision(first)))
        blank = match.new_zeros(()).expand_as(match)
        other = torch.eye(len(first), dtype=match.dtype, device=match.device) - match
        chosen = Relations(blank, blank, blank).only(match, other)
        value: Tensor = self.loss(first, None, Mined(chosen), second)
        return value


class FixedTripletsLoss(nn.Module):
    """Any loss that needs no labels, of triplets that are known.

    Row i of the three is a triplet; nothing else is compared.

    Args:
        loss: A loss over pairs or triplets of images, such as ``TripletMarginLoss``.

    >>> from lookalike.losses import TripletMarginLoss
    >>> rows = torch.eye(3)
    >>> FixedTripletsLoss(TripletMarginLoss(margin=0.2))(rows[:1], rows[1:2], rows[2:])
    tensor(0.2000)
    """

    def __init__(self, loss: nn.Module) -> None:
        super().__init__()
        self.loss = loss

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        """The loss of these triplets.

        Args:
            anchor: [N, D].
            positive: [N, D], each to be near its anchor.
            negative: [N, D], each to be farther from it.

        Returns:
            A scalar.
        """
        _check_rows(anchor, positive, negative)
        number = torch.arange(len(anchor), device=anchor.device)
        chosen = number, number, number + len(anchor)
        value: Tensor = self.loss(anchor, None, chosen, torch.cat([positive, negative]))
        return value


def _check_rows(first: Tensor, *others: Tensor) -> None:
    if any(rows.shape != first.shape for rows in others):
        shapes = ", ".join(str(tuple(rows.shape)) for rows in (first, *others))
        raise BadInput(f"rows of one place belong together, but their shapes differ: {shapes}")


class SelfSupervisedLoss(nn.Module):
    """Any loss over images, without labels: views of the same image are positives.

    Row i of every view is the same image. ``symmetric``: all views are anchors, and candidates of
    all others; else the first view has the anchors and the others the candidates.

    Args:
        loss: Any loss, ours or another package's.
        symmetric: Whether every view has anchors.

    >>> from lookalike.losses import NTXentLoss
    >>> loss = SelfSupervisedLoss(NTXentLoss())
    >>> views = torch.randn(3, 8, 16)  # three augmentations of 8 images
    >>> loss(*views).shape
    torch.Size([])
    """

    def __init__(self, loss: nn.Module, symmetric: bool = True) -> None:
        super().__init__()
        self.loss = loss
        self.symmetric = symmetric

    def forward(self, embeddings: Tensor, ref_emb: Tensor, *more: Tensor) -> Tensor:
        """The loss of two or more views of a batch.

        Args:
            embeddings: [N, D], the first view of each image.
            ref_emb: [N, D], the second.
            *more: Further ones.

        Returns:
            A scalar.
        """
        others = (ref_emb, *more)
        if any(view.shape != embeddings.shape for view in others):
            raise BadInput("all views must have the same number of rows and columns")
        labels = torch.arange(len(embeddings), device=embeddings.device)
        of_others = labels.repeat(len(others))
        if self.symmetric:
            rows = torch.cat([embeddings, *others])
            value: Tensor = self.loss(rows, torch.cat([labels, of_others]))
        else:
            value = self.loss(embeddings, labels, None, torch.cat(others), of_others)
        return value
