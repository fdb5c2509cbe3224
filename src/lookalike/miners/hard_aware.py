"""The hardest part of all pairs."""

import torch
from torch import Tensor

from lookalike.errors import BadInput
from lookalike.miners.base import Miner
from lookalike.miners.mined import Indices, from_indices, named_pairs
from lookalike.ops.sync import can_sync
from lookalike.registry import MINERS
from lookalike.relations import Relations

__all__ = ["HDCMiner"]


@MINERS.register("hdc", paper="Yuan et al., ICCV 2017")
class HDCMiner(Miner):
    """The hardest share of all positive pairs of a batch, and of all negative pairs.

    With ``set_idx_externally`` it narrows the pairs that another miner found, as the cascades of
    the paper do, until ``reset_idx``.

    Args:
        filter_percentage: The share that is kept, rounded up; 0.5 is half.
    """

    hardest_first = True  # as PML's

    filter_percentage: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.filter_percentage <= 1:
            raise BadInput(
                f"filter_percentage is {self.filter_percentage}; it must be above 0, up to 1"
            )
        self.external: Indices | None = None

    def set_idx_externally(self, external_indices_tuple: Indices, labels: object = None) -> None:  # noqa: ARG002
        """Choose from these pairs or triplets instead of all pairs."""
        self.external = external_indices_tuple

    def reset_idx(self) -> None:
        """Choose from all pairs again."""
        self.external = None

    def mine(self, relations: Relations) -> Relations:
        """The least similar positives and the most similar negatives."""
        r = relations
        positive, negative = r.positives, r.negatives
        if self.external is not None:
            height, width = r.similarity.shape
            given = from_indices(self.external, height, width, r.similarity)
            positive, negative = named_pairs(given)
        return r.only_pairs(
            self._hardest(-r.similarity, positive > 0), self._hardest(r.similarity, negative > 0)
        )

    def _hardest(self, hardness: Tensor, pairs: Tensor) -> Tensor:
        """A mask of the hardest share of the pairs; among equals those that stand first."""
        flat = hardness.masked_fill(~pairs, -torch.inf).flatten()
        number = (pairs.sum() * self.filter_percentage).ceil()
        if can_sync(hardness):
            order = flat.topk(int(number)).indices
            return torch.zeros_like(pairs).flatten().index_fill(0, order, True).view_as(pairs)
        rank = flat.argsort(descending=True, stable=True).argsort()
        return (rank < number).view_as(pairs) & pairs
