"""A reducer of one's own, written as a subclass of PML's base."""

from typing import Any

import torch
from torch import Tensor

from lookalike.reducers.base import Reducer
from lookalike.reducers.loss_dict import as_loss_dict
from lookalike.reducers.terms import Batch, Terms

__all__ = ["BaseReducer"]


class BaseReducer(Reducer):
    """A reducer by ``element_reduction``, ``pos_pair_reduction``, ... as PML's subclasses write it.

    Each of them gets ``(losses, loss_indices, embeddings, labels)`` and returns one number.

    Args:
        collect_stats: Accepted as PML's; no statistics are kept.

    >>> class Largest(BaseReducer):
    ...     def element_reduction(self, losses, loss_indices, embeddings, labels):
    ...         return losses.max()
    >>> Largest().reduce(Terms(torch.tensor([1.0, 3.0])), Batch(2, 2))
    tensor(3.)
    """

    def __init__(self, collect_stats: bool | None = None) -> None:
        self.told_to_collect(collect_stats)

    def reduce(self, terms: Terms, batch: Batch | None = None) -> Tensor:
        """By the method for what the values belong to."""
        if terms.values.ndim == 0:
            return terms.values
        known = batch or Batch(len(terms.values), len(terms.values))
        embeddings = known.embeddings
        if embeddings is None:
            embeddings = torch.zeros(known.anchors, 1).to(terms.values)
        (entry,) = as_loss_dict([terms], known).values()
        method = getattr(self, f"{entry['reduction_type']}_reduction")
        found: Tensor = method(entry["losses"], entry["indices"], embeddings, known.labels)
        return found

    def element_reduction(
        self, losses: Tensor, loss_indices: Any, embeddings: Tensor, labels: Tensor | None
    ) -> Tensor:
        """Of one value per anchor or image."""
        raise NotImplementedError

    def pos_pair_reduction(
        self, losses: Tensor, loss_indices: Any, embeddings: Tensor, labels: Tensor | None
    ) -> Tensor:
        """Of one value per positive pair."""
        raise NotImplementedError

    def neg_pair_reduction(
        self, losses: Tensor, loss_indices: Any, embeddings: Tensor, labels: Tensor | None
    ) -> Tensor:
        """Of one value per negative pair."""
        raise NotImplementedError

    def triplet_reduction(
        self, losses: Tensor, loss_indices: Any, embeddings: Tensor, labels: Tensor | None
    ) -> Tensor:
        """Of one value per triplet."""
        raise NotImplementedError

    def zero_loss(self, embeddings: Tensor) -> Tensor:
        """0, with a gradient of 0."""
        return (embeddings * 0).sum()
