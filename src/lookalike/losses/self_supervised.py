"""Losses without labels: the views of one image are its class."""

import torch
from torch import Tensor, nn

from lookalike.errors import BadInput

__all__ = ["SelfSupervisedLoss"]


class SelfSupervisedLoss(nn.Module):
    """Any loss over images, without labels: views of the same image are positives.

    Row i of every view is the same image. ``symmetric``: all views are anchors, and candidates of
    all others; else the first view has the anchors and the others the candidates.

    Args:
        loss: Any loss, ours or one of PML's.
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
