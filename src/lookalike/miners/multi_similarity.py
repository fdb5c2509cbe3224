"""Pairs that are hard: compared with the other kind, with a margin, or with all of their kind."""

import torch
from torch import Tensor

from lookalike.distances import CosineSimilarity
from lookalike.errors import BadInput
from lookalike.miners.base import Miner
from lookalike.miners.mined import Indices, from_indices, named_pairs
from lookalike.registry import MINERS
from lookalike.relations import Relations

__all__ = ["HDCMiner", "MultiSimilarityMiner", "PairMarginMiner"]


@MINERS.register("multi-similarity", paper="Wang et al., CVPR 2019")
class MultiSimilarityMiner(Miner):
    """Negatives nearer than the farthest positive, positives farther than the nearest negative.

    A negative is kept if ``s_an > min_P s - epsilon``, a positive if ``s_ap < max_N s + epsilon``.

    Args:
        epsilon: The slack of both comparisons.
    """

    default_distance = CosineSimilarity

    epsilon: float = 0.1

    def mine(self, relations: Relations) -> Relations:
        """Both kinds of pairs."""
        s, positive, negative = relations.similarity, relations.positives, relations.negatives
        positive, negative = positive > 0, negative > 0
        farthest = s.where(positive, torch.inf).amin(1, keepdim=True)
        nearest = s.where(negative, -torch.inf).amax(1, keepdim=True)
        return relations.only(
            positive & (s < nearest + self.epsilon), negative & (s > farthest - self.epsilon)
        )


@MINERS.register("pair-margin")
class PairMarginMiner(Miner):
    """Positives farther than ``pos_margin`` and negatives nearer than ``neg_margin``.

    Args:
        pos_margin: In the unit of the distance.
        neg_margin: In the unit of the distance.
    """

    pos_margin: float = 0.2
    neg_margin: float = 0.8

    def mine(self, relations: Relations) -> Relations:
        """Both kinds of pairs."""
        similarity, to_similarity = relations.similarity, self.distance.to_similarity
        return relations.only(
            (relations.positives > 0) & (similarity < to_similarity(self.pos_margin)),
            (relations.negatives > 0) & (similarity > to_similarity(self.neg_margin)),
        )


@MINERS.register("hdc", paper="Yuan et al., ICCV 2017")
class HDCMiner(Miner):
    """The hardest share of all positive pairs of a batch, and of all negative pairs.

    With ``set_idx_externally`` it narrows the pairs that another miner found, as the cascades of
    the paper do, until ``reset_idx``.

    Args:
        filter_percentage: The share that is kept, rounded up; 0.5 is half.
    """

    filter_percentage: float = 0.5

    def __post_init__(self) -> None:
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
            positive, negative = named_pairs(from_indices(self.external, r))
        return r.only(
            self._hardest(-r.similarity, positive > 0), self._hardest(r.similarity, negative > 0)
        )

    def _hardest(self, hardness: Tensor, pairs: Tensor) -> Tensor:
        """A mask of the hardest share of the pairs; among equals those that stand first."""
        flat = hardness.masked_fill(~pairs, -torch.inf).flatten()
        number = (pairs.sum() * self.filter_percentage).ceil()
        rank = flat.argsort(descending=True, stable=True).argsort()
        return (rank < number).view_as(pairs) & pairs
