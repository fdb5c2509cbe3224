"""Verification: are two images of one class? Scores of all pairs of a set, over all thresholds.

The pairs are counted in fine bins of their similarity, a block at a time, so that memory does not
grow with their number; pairs in one bin count as equally similar.
"""

import math
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from lookalike.evaluation.metrics import diagnostic
from lookalike.evaluation.space import BLOCK, EmbeddingSpace
from lookalike.registry import METRICS

__all__ = ["equal_error_rate", "roc_auc", "true_accept_rate"]

BINS = 1 << 17
"""Of similarities, from the least to the largest possible."""


@METRICS.register("roc-auc")
def roc_auc(space: EmbeddingSpace) -> float:
    """The chance that a pair of one class is more similar than a pair of two classes."""
    positive, negative = _pair_counts(space)
    below = negative.cumsum(0) - negative / 2
    return float((positive * below).sum() / (positive.sum() * negative.sum()))


@METRICS.register("eer")
@diagnostic
def equal_error_rate(space: EmbeddingSpace) -> float:
    """The share of wrong answers where as many pairs are wrongly accepted as refused."""
    accepted, refused = _rates(space)
    if accepted.isnan().any():
        return math.nan
    apart = accepted - refused  # falls as the threshold grows
    after = int((apart <= 0).nonzero()[0])
    if after == 0:
        return float((accepted[0] + refused[0]) / 2)
    # between two thresholds both rates are taken as lines, which cross
    before = after - 1
    share = apart[before] / (apart[before] - apart[after])
    return float(accepted[before] + share * (accepted[after] - accepted[before]))


@METRICS.register("tar@k")
def true_accept_rate(space: EmbeddingSpace, k: int) -> float:
    """The share of pairs of one class accepted where 10^-k of the others are: tar@3 is at 0.001."""
    accepted, refused = _rates(space)
    if accepted.isnan().any():
        return math.nan
    allowed = (accepted <= 10.0**-k).nonzero()[0]
    return float(1 - refused[allowed])


def _rates(space: EmbeddingSpace) -> tuple[Tensor, Tensor]:
    """Of wrongly accepted and of wrongly refused pairs, for thresholds from low to high."""
    positive, negative = _pair_counts(space)
    zero = positive.new_zeros(1)
    accepted = 1 - torch.cat([zero, negative.cumsum(0)]) / negative.sum()
    refused = torch.cat([zero, positive.cumsum(0)]) / positive.sum()
    return accepted, refused


_counted: WeakKeyDictionary[EmbeddingSpace, tuple[Tensor, Tensor]] = WeakKeyDictionary()


def _pair_counts(space: EmbeddingSpace) -> tuple[Tensor, Tensor]:
    """How many pairs of one class and of two classes are in each bin; NaN where a kind lacks."""
    if space not in _counted:
        _counted[space] = _count_pairs(space)
    return _counted[space]


def _count_pairs(space: EmbeddingSpace) -> tuple[Tensor, Tensor]:
    """The same, bins from far to near."""
    rows, labels = space.embeddings, space.labels
    squares = rows.double().square().sum(1)
    most = max(4 * float(squares.max()), torch.finfo(torch.float32).tiny)
    counts = torch.zeros(2, BINS, dtype=torch.float64, device=rows.device)
    for start in range(0, len(rows), BLOCK):
        part = rows[start : start + BLOCK]
        # every pair once: against the rows that follow
        apart = squares[start : start + BLOCK, None] + squares[start:]
        apart = (apart - 2 * (part.double() @ rows[start:].double().T)).clamp_(0, most)
        same = labels[start : start + BLOCK, None] == labels[start:]
        later = torch.ones_like(same).triu_(1)
        place = ((1 - (apart / most).sqrt()) * (BINS - 1)).round().long()
        for number, pairs in enumerate((same & later, ~same & later)):
            counts[number] += torch.bincount(place[pairs], minlength=BINS)
    if not (counts.sum(1) > 0).all():
        return torch.full_like(counts[0], math.nan), torch.full_like(counts[1], math.nan)
    return counts[0], counts[1]
