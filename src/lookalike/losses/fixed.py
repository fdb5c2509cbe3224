"""Losses of pairs or triplets that the data gives, without classes."""

import torch
from torch import Tensor, nn

from lookalike.errors import BadInput
from lookalike.miners.mined import Mined
from lookalike.ops.rows import in_full_precision
from lookalike.relations import Relations

__all__ = ["FixedPairsLoss", "FixedTripletsLoss"]


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
        chosen = Relations(blank, blank, blank).only_pairs(match, other)
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
