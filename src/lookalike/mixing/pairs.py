"""Which two images of a batch are mixed, and for which anchor.

A mixed example is ``v = share x_first + (1 - share) x_second``: the first is a positive of the
anchor or the anchor itself, the second one of the anchor's negatives.
"""

from typing import Literal, NamedTuple, TypeAlias

import numpy as np
import torch
from torch import Tensor

from lookalike.errors import BadInput
from lookalike.ops.pairs import picked

__all__ = [
    "Candidates",
    "Kind",
    "MixedPairs",
    "all_pairs",
    "candidates_of_classes",
    "candidates_of_images",
    "hard_pairs",
    "random_pairs",
]

Kind: TypeAlias = Literal["positive-negative", "anchor-negative"]


class MixedPairs(NamedTuple):
    """Indices into the batch, and how much of the first is in each mix."""

    first: Tensor
    second: Tensor
    share: Tensor

    def of(self, source: Tensor) -> Tensor:
        """The mixes of images, feature maps or embeddings, one per pair."""
        share = self.share.to(source.dtype).view(-1, *[1] * (source.ndim - 1))
        return torch.lerp(
            source.index_select(0, self.second), source.index_select(0, self.first), share
        )

    def part(self, rows: Tensor) -> "MixedPairs":
        """Some of the pairs, by number."""
        return MixedPairs(*(values.index_select(0, rows) for values in self))


class Candidates(NamedTuple):
    """The mixes of each anchor when all negatives are mixed: its own ``first``, any ``second``.

    An anchor's mixes are one row: each of its first images with every image of the batch, of which
    those with its negatives are valid.
    """

    first: Tensor
    """[anchors, most]: indices into the batch."""
    there: Tensor
    """[anchors, most]: whether the entry of ``first`` is one (anchors differ in number)."""
    negatives: Tensor
    """[anchors, N]: whether an image is a negative of the anchor."""

    def on(self, device: torch.device) -> "Candidates":
        """The same on another device."""
        return Candidates(*(values.to(device) for values in self))

    def rows_of(self, matrix: Tensor) -> Tensor:
        """[anchors, most, N]: the rows of an N x N matrix that belong to ``first``."""
        rows = matrix.index_select(0, self.first.reshape(-1))
        return rows.view(*self.first.shape, matrix.shape[1])

    def valid(self, dtype: torch.dtype) -> Tensor:
        """[anchors, most * N]: 1 for a mix of the anchor."""
        mine = self.there.unsqueeze(2) & self.negatives.unsqueeze(1)
        return mine.flatten(1).to(dtype)


def candidates_of_images(labels: Tensor, kind: Kind) -> Candidates:
    """What each image, as an anchor, mixes: itself or its positives, with its negatives.

    >>> candidates_of_images(torch.tensor([4, 4, 9]), "positive-negative").first[:2].tolist()
    [[1], [0]]
    """
    same = _same_class(labels)
    if kind == "anchor-negative":
        itself = torch.arange(len(labels), device=labels.device).unsqueeze(1)
        return Candidates(itself, torch.ones_like(itself, dtype=torch.bool), ~same)
    return Candidates(*_listed(same.clone().fill_diagonal_(False)), ~same)


def candidates_of_classes(labels: Tensor) -> tuple[Tensor, Candidates]:
    """The classes of the batch, and what the proxy of each mixes: its images with all others.

    >>> candidates_of_classes(torch.tensor([4, 9, 4]))[1].first[0].tolist()
    [0, 2]
    """
    classes: Tensor = torch.unique(labels)
    members = classes.unsqueeze(1) == labels
    return classes, Candidates(*_listed(members), ~members)


def all_pairs(labels: Tensor) -> tuple[Tensor, Tensor]:
    """Every two images of different classes, in both orders.

    >>> all_pairs(torch.tensor([4, 4, 9]))
    (tensor([0, 1, 2, 2]), tensor([2, 2, 0, 1]))
    """
    first, second = (~_same_class(labels)).nonzero(as_tuple=True)
    return first, second


def random_pairs(labels: Tensor, number: int, alpha: float = 2, seed: int = 0) -> MixedPairs:
    """Pairs of images of different classes, drawn at random from a whole data set.

    For figures and metrics of mixed examples: ``unit(random_pairs(labels, n).of(embeddings))``.

    Args:
        labels: [N] class indices.
        number: How many pairs.
        alpha: The share of the first is drawn from Beta(alpha, alpha).
        seed: Seed of the draws.

    Returns:
        The pairs.

    Raises:
        BadInput: There is only one class.
    """
    classes = labels.cpu().numpy()
    if classes.ndim != 1 or len(np.unique(classes)) < 2:
        raise BadInput("mixing needs one class index per image, and two classes at least")
    random = np.random.default_rng(seed)
    first = random.integers(0, len(classes), number)
    # the second: uniform among the images that follow or precede the first's class
    order = np.argsort(classes, kind="stable")
    begin = np.searchsorted(classes[order], classes[first], "left")
    end = np.searchsorted(classes[order], classes[first], "right")
    drawn = random.integers(0, len(classes) - (end - begin))
    second = order[np.where(drawn < begin, drawn, drawn + end - begin)]
    share = random.beta(alpha, alpha, number)
    return MixedPairs(*(torch.from_numpy(a).to(labels.device) for a in (first, second, share)))


def hard_pairs(
    labels: Tensor, similarity: Tensor, negatives: int, *, draw_positive: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """For every image and each of its anchor's hardest negatives one pair to mix.

    Row i of ``similarity`` [N, N] has the similarities of all images to the anchor of image i: i
    itself, or the proxy of its class. The first of a pair is a positive of image i drawn for each
    pair (``draw_positive``; an image without positives then has no pairs), or i itself. Returned
    are the image whose anchor the pair is for, the first and the second of each pair. How many
    there are follows from the labels; while these are on the CPU nothing waits for the device.

    >>> hard_pairs(torch.tensor([4, 4, 9]), torch.eye(3), 1, draw_positive=True)
    (tensor([0, 1]), tensor([1, 0]), tensor([2, 2]))
    """
    device = similarity.device
    same = _same_class(labels)
    number = min(negatives, len(labels))
    there = torch.arange(number, device=labels.device) < (~same).sum(1, keepdim=True)
    if draw_positive:
        mates, mate_there = _listed(same.clone().fill_diagonal_(False))
        counts = mate_there.sum(1)
        there &= counts.unsqueeze(1) > 0
    anchor, place = there.nonzero(as_tuple=True)
    first = anchor
    if draw_positive:
        drawn = torch.rand(len(anchor), dtype=torch.float64, device=labels.device)
        first = mates[anchor, (drawn * counts[anchor]).long()]
    far = torch.finfo(similarity.dtype).min
    nearest = similarity.masked_fill(same.to(device), far).topk(number, dim=1).indices
    second = picked(nearest, anchor.to(device), place.to(device))
    return anchor.to(device), first.to(device), second


def _same_class(labels: Tensor) -> Tensor:
    if labels.ndim != 1:
        raise BadInput("mixing needs one class index per image, not multi-hot rows")
    return labels.unsqueeze(1) == labels


def _listed(mask: Tensor) -> tuple[Tensor, Tensor]:
    """The columns of the true entries of each row, in order, and where there is one: [rows, most].

    On the CPU ``most`` is looked up; elsewhere too, which waits for the device.
    """
    there, order = mask.int().sort(dim=1, descending=True, stable=True)
    most = int(mask.sum(1).max()) if mask.numel() else 0
    return order[:, :most], there[:, :most].bool()
