"""Which two images of a batch are mixed, and for which anchor.

A mixed example is ``v = share x_first + (1 - share) x_second``: the first is a positive of the
anchor or the anchor itself, the second one of the anchor's negatives.
"""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from lookalike.errors import BadInput
from lookalike.ops.blocks import gather_pairs

__all__ = ["MixedPairs", "all_pairs", "columns_of", "hard_pairs", "random_pairs", "same_class"]


class MixedPairs(NamedTuple):
    """Indices into the batch, and how much of the first is in each mix."""

    first: Tensor
    second: Tensor
    share: Tensor

    def of(self, source: Tensor) -> Tensor:
        """The mixes of images (uint8 pixels too), feature maps or embeddings, one per pair."""
        source = source if source.is_floating_point() else source.float()
        share = self.share.to(source.dtype).view(-1, *[1] * (source.ndim - 1))
        return torch.lerp(
            source.index_select(0, self.second), source.index_select(0, self.first), share
        )

    def part(self, rows: Tensor) -> "MixedPairs":
        """Some of the pairs, by number."""
        return MixedPairs(*(values.index_select(0, rows) for values in self))


def same_class(labels: Tensor) -> Tensor:
    """[N, N] which images are of one class."""
    if labels.ndim != 1:
        raise BadInput("mixing needs one class index per image, not multi-hot rows")
    return labels.unsqueeze(1) == labels


def all_pairs(labels: Tensor) -> tuple[Tensor, Tensor]:
    """Every two images of different classes, in both orders.

    >>> all_pairs(torch.tensor([4, 4, 9]))
    (tensor([0, 1, 2, 2]), tensor([2, 2, 0, 1]))
    """
    first, second = (~same_class(labels)).nonzero(as_tuple=True)
    return first, second


def hard_pairs(
    labels: Tensor, similarity: Tensor, negatives: int, *, draw_positive: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """For every image and each of its anchor's hardest negatives one pair to mix.

    How many pairs there are follows from the labels; while these are on the CPU nothing waits for
    the device.

    Args:
        labels: [N] class indices.
        similarity: [N, N]; row i has the similarities of all images to the anchor of image i: i
            itself, or the proxy of its class.
        negatives: How many, of the most similar ones.
        draw_positive: Whether the first of a pair is a positive of image i, drawn for each pair (an
            image without positives then has no pairs), instead of i itself.

    Returns:
        The image whose anchor the pair is for, the first and the second of each pair.

    >>> hard_pairs(torch.tensor([4, 4, 9]), torch.eye(3), 1, draw_positive=True)
    (tensor([0, 1]), tensor([1, 0]), tensor([2, 2]))
    """
    device = similarity.device
    same = same_class(labels)
    number = min(negatives, len(labels))
    exists = torch.arange(number, device=labels.device) < (~same).sum(1, keepdim=True)
    if draw_positive:
        mates, is_mate = columns_of(same.clone().fill_diagonal_(False))
        counts = is_mate.sum(1)
        exists &= counts.unsqueeze(1) > 0
    image, place = exists.nonzero(as_tuple=True)
    first = image
    if draw_positive:
        drawn = torch.rand(len(image), dtype=torch.float64, device=labels.device)
        first = mates[image, (drawn * counts[image]).long()]
    far = torch.finfo(similarity.dtype).min
    nearest = similarity.masked_fill(same.to(device), far).topk(number, dim=1).indices
    return image, first, gather_pairs(nearest, image.to(device), place.to(device))


def columns_of(mask: Tensor) -> tuple[Tensor, Tensor]:
    """The columns of the true entries of each row, in order, and which of them are there.

    Both are [rows, most]: rows with fewer entries than the longest are filled up.
    """
    exists, order = mask.int().sort(dim=1, descending=True, stable=True)
    most = int(mask.sum(1).max()) if mask.numel() else 0
    return order[:, :most], exists[:, :most].bool()


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
