"""Scores of nearest neighbours whose labels are known."""

from collections.abc import Callable
from typing import Any, TypeAlias

import torch
from torch import Tensor

__all__ = [
    "mean_average_precision",
    "mean_average_precision_at_r",
    "mean_reciprocal_rank",
    "precision_at_k",
    "r_precision",
    "summarize",
]

Comparison: TypeAlias = Callable[[Tensor, Tensor], Tensor]
Summary: TypeAlias = float | list[float]


def summarize(
    values: Tensor, labels: Tensor, avg_of_avgs: bool = False, return_per_class: bool = False
) -> Summary:
    """The mean over queries, the mean over classes of their means, or those means themselves.

    Args:
        values: One per query.
        labels: [queries] or [queries, ...], the class of each.
        avg_of_avgs: Whether every class weighs the same.
        return_per_class: Whether the means of the classes are returned.

    Returns:
        A number, or a list in order of the classes.
    """
    if not (avg_of_avgs or return_per_class):
        return values.double().mean().item()
    codes = torch.unique(labels.reshape(len(labels), -1), dim=0, return_inverse=True)[1]
    sums = torch.zeros(int(codes.max()) + 1, dtype=torch.float64, device=values.device)
    means = sums.index_add(0, codes, values.double()) / torch.bincount(codes)
    return means.tolist() if return_per_class else means.mean().item()


def of_neighbours(formula: Callable[[Tensor, Tensor, Any], Tensor]) -> Callable[..., Summary]:
    """A formula of hits [queries, neighbours], their places from 1, and a number, as a score.

    The score takes ``knn_labels`` [queries, neighbours, ...], ``gt_labels`` [queries, 1, ...], the
    number (k, or the R relevant items of each query), ``avg_of_avgs``, ``return_per_class`` and
    ``label_comparison_fn``, and gives a number, or a list in order of the classes.

    >>> knn_labels, labels = torch.tensor([[7, 8], [7, 8]]), torch.tensor([[7], [8]])
    >>> precision_at_k(knn_labels, labels, 1, False, False, torch.eq)
    0.5
    """

    def score(
        knn_labels: Tensor,
        gt_labels: Tensor,
        number: int | Tensor,
        avg_of_avgs: bool = False,
        return_per_class: bool = False,
        label_comparison_fn: Comparison = torch.eq,
    ) -> Summary:
        hits = label_comparison_fn(gt_labels, knn_labels).double()
        place = torch.arange(1, hits.shape[1] + 1, device=hits.device)
        number = torch.as_tensor(number, device=hits.device).reshape(-1, 1)
        return summarize(formula(hits, place, number), gt_labels, avg_of_avgs, return_per_class)

    score.__doc__ = formula.__doc__
    return score


@of_neighbours
def precision_at_k(hits: Tensor, place: Tensor, k: Tensor) -> Tensor:
    """``#{relevant among the first k} / k``."""
    return (hits * (place <= k) / k).sum(1)


@of_neighbours
def r_precision(hits: Tensor, place: Tensor, relevant: Tensor) -> Tensor:
    """``#{relevant among the first R} / R``, of those that were looked at."""
    return (hits * (place <= relevant)).sum(1) / (place <= relevant).sum(1)


@of_neighbours
def mean_average_precision(hits: Tensor, place: Tensor, relevant: Tensor) -> Tensor:
    """``1/R sum over relevant neighbours of the precision at their place``."""
    return (hits.cumsum(1) * hits / place / relevant).sum(1)


@of_neighbours
def mean_average_precision_at_r(hits: Tensor, place: Tensor, relevant: Tensor) -> Tensor:
    """The same of relevant neighbours among the first R."""
    return (hits.cumsum(1) * hits / place / relevant * (place <= relevant)).sum(1)


@of_neighbours
def mean_reciprocal_rank(hits: Tensor, place: Tensor, _: Tensor) -> Tensor:
    """``1 / rank of the first relevant neighbour``; 0 where there is none."""
    return (hits / place).amax(1)
