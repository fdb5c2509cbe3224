"""Which two images of a batch are mixed, and for which anchors.

A mixed example is ``v = share x_first + (1 - share) x_second``, the two of different classes. It
serves every anchor of the first one's class, so that no anchor needs mixes of its own.
"""

from typing import Literal, NamedTuple, TypeAlias

import torch
from torch import Tensor

from lookalike.errors import BadInput
from lookalike.ops.pairs import picked

__all__ = ["Kind", "MixedPairs", "choose_pairs", "partners", "serves"]

Kind: TypeAlias = Literal["positive-negative", "anchor-negative"]


class MixedPairs(NamedTuple):
    """Indices into the batch, and how much of the first is in each mix."""

    first: Tensor
    second: Tensor
    share: Tensor

    def of(self, source: Tensor) -> Tensor:
        """The mixes of images, feature maps or embeddings, one a pair."""
        share = self.share.to(source.dtype).view(-1, *[1] * (source.ndim - 1))
        return torch.lerp(
            source.index_select(0, self.second), source.index_select(0, self.first), share
        )


def choose_pairs(
    labels: Tensor, similarity: Tensor, negatives: int | None
) -> tuple[Tensor, Tensor]:
    """Every image with its ``negatives`` most similar images of other classes (None: with all).

    How many pairs there are follows from the labels alone; while these are on the CPU nothing
    waits for the device.

    >>> first, second = choose_pairs(torch.tensor([4, 4, 9]), torch.eye(3), 1)
    >>> first.tolist(), second.tolist()
    ([0, 1, 2], [2, 2, 0])
    """
    if labels.ndim != 1:
        raise BadInput("mixing needs one class number an image, not multi-hot rows")
    device = similarity.device
    other = labels.unsqueeze(1) != labels
    if negatives is None:
        first, second = other.nonzero(as_tuple=True)
        return first.to(device), second.to(device)
    number = min(negatives, labels.shape[0])
    there = torch.arange(number, device=labels.device) < other.sum(1, keepdim=True)
    first, place = (index.to(device) for index in there.nonzero(as_tuple=True))
    nearest = similarity.masked_fill(~other.to(device), -torch.inf).topk(number, dim=1).indices
    return first, picked(nearest, first, place)


def serves(alike: Tensor, first: Tensor, kind: Kind) -> Tensor:
    """Anchors x pairs: 1 where the pair is one of the anchor's, from the classes ``alike`` [N, N].

    positive-negative: the first is a positive of the anchor; anchor-negative: it is the anchor.
    """
    itself = torch.eye(alike.shape[0], dtype=alike.dtype, device=alike.device)
    return (itself if kind == "anchor-negative" else alike - itself).index_select(1, first)


def partners(labels: Tensor, kind: Kind) -> tuple[Tensor, Tensor]:
    """For each anchor the images that may be its first one, [N, most], and 1 where there is one.

    >>> partners(torch.tensor([4, 4, 9]), "positive-negative")[0][:2].tolist()
    [[1], [0]]
    """
    size = labels.shape[0]
    if kind == "anchor-negative":
        itself = torch.arange(size, device=labels.device).unsqueeze(1)
        return itself, torch.ones_like(itself)
    mates = (labels.unsqueeze(1) == labels).fill_diagonal_(False)
    there, order = mates.int().sort(dim=1, descending=True, stable=True)
    most = int(mates.sum(1).max())
    return order[:, :most], there[:, :most]
