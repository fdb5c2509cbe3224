"""Scores of nearest neighbours whose labels are known, as PML's functions take them."""

from collections.abc import Callable
from typing import TypeAlias

import torch
from torch import Tensor

__all__ = [
    "mean_average_precision",
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


def precision_at_k(
    knn_labels: Tensor,
    gt_labels: Tensor,
    k: int,
    avg_of_avgs: bool,
    return_per_class: bool,
    label_comparison_fn: Comparison,
) -> Summary:
    """``#{relevant among the first k} / k``.

    Args:
        knn_labels: [queries, neighbours, ...].
        gt_labels: [queries, 1, ...].
        k: How many neighbours.
        avg_of_avgs: As of ``summarize``.
        return_per_class: As of ``summarize``.
        label_comparison_fn: Whether two labels agree.

    Returns:
        A number, or a list in order of the classes.
    """
    hits = label_comparison_fn(gt_labels, knn_labels[:, :k])
    return summarize(hits.double().sum(1) / k, gt_labels, avg_of_avgs, return_per_class)


def r_precision(
    knn_labels: Tensor,
    gt_labels: Tensor,
    relevant: Tensor,
    avg_of_avgs: bool,
    return_per_class: bool,
    label_comparison_fn: Comparison,
) -> Summary:
    """``#{relevant among the first R} / R``, of those that were looked at.

    Args:
        knn_labels: [queries, neighbours, ...].
        gt_labels: [queries, 1, ...].
        relevant: [queries] R, how many items of the gallery are relevant.
        avg_of_avgs: As of ``summarize``.
        return_per_class: As of ``summarize``.
        label_comparison_fn: Whether two labels agree.

    Returns:
        A number, or a list in order of the classes.
    """
    first = _first(knn_labels, relevant)
    hits = label_comparison_fn(gt_labels, knn_labels).double() * first
    return summarize(hits.sum(1) / first.sum(1), gt_labels, avg_of_avgs, return_per_class)


def mean_average_precision(
    knn_labels: Tensor,
    gt_labels: Tensor,
    relevant: Tensor,
    avg_of_avgs: bool,
    return_per_class: bool,
    label_comparison_fn: Comparison,
    at_r: bool = False,
) -> Summary:
    """``1/R sum over relevant neighbours of the precision at their place``.

    Args:
        knn_labels: [queries, neighbours, ...].
        gt_labels: [queries, 1, ...].
        relevant: [queries] R, how many items of the gallery are relevant.
        avg_of_avgs: As of ``summarize``.
        return_per_class: As of ``summarize``.
        label_comparison_fn: Whether two labels agree.
        at_r: Whether only the first R neighbours count.

    Returns:
        A number, or a list in order of the classes.
    """
    hits = label_comparison_fn(gt_labels, knn_labels).double()
    if at_r:
        hits = hits * _first(knn_labels, relevant)
    place = torch.arange(1, hits.shape[1] + 1, device=hits.device)
    values = (hits.cumsum(1) * hits / place).sum(1) / relevant
    return summarize(values, gt_labels, avg_of_avgs, return_per_class)


def mean_reciprocal_rank(
    knn_labels: Tensor,
    gt_labels: Tensor,
    avg_of_avgs: bool,
    return_per_class: bool,
    label_comparison_fn: Comparison,
) -> Summary:
    """``1 / rank of the first relevant neighbour``; 0 where there is none.

    Args:
        knn_labels: [queries, neighbours, ...].
        gt_labels: [queries, 1, ...].
        avg_of_avgs: As of ``summarize``.
        return_per_class: As of ``summarize``.
        label_comparison_fn: Whether two labels agree.

    Returns:
        A number, or a list in order of the classes.
    """
    hits = label_comparison_fn(gt_labels, knn_labels).double()
    place = torch.arange(1, hits.shape[1] + 1, device=hits.device)
    return summarize((hits / place).amax(1), gt_labels, avg_of_avgs, return_per_class)


def _first(knn_labels: Tensor, relevant: Tensor) -> Tensor:
    """1 for the first R neighbours of each query."""
    place = torch.arange(knn_labels.shape[1], device=relevant.device)
    return (place < relevant.unsqueeze(1)).double()
