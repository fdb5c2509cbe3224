"""One positive and one negative an anchor, by how easy or hard they are."""

from typing import ClassVar, Literal, TypeAlias

import torch
from torch import Tensor

from lookalike.errors import BadInput
from lookalike.miners.base import Miner
from lookalike.registry import MINERS
from lookalike.relations import Relations, Triplets

__all__ = ["BatchEasyHardMiner", "BatchHardMiner"]

Strategy: TypeAlias = Literal["hard", "semihard", "easy", "all"]


@MINERS.register("easy-positive", paper="Xuan et al., WACV 2020")
class BatchEasyHardMiner(Miner):
    """An anchor's easiest positive and semi-hard negative (or other strategies for each).

    A strategy is ``easy`` (the nearest positive, the farthest negative), ``hard`` (the opposite),
    ``semihard`` (the hardest that keeps the negative beyond the positive) or ``all``. Anchors
    without a fitting positive or negative are left out. ``allowed_pos_range`` and
    ``allowed_neg_range`` are bounds in the unit of the distance.

    Args:
        pos_strategy: For positives.
        neg_strategy: For negatives.
        allowed_pos_range: Distances that positives may have; None: all.
        allowed_neg_range: Distances that negatives may have; None: all.
    """

    HARD: ClassVar[Strategy] = "hard"
    SEMIHARD: ClassVar[Strategy] = "semihard"
    EASY: ClassVar[Strategy] = "easy"
    ALL: ClassVar[Strategy] = "all"

    pos_strategy: Strategy = "easy"
    neg_strategy: Strategy = "semihard"
    allowed_pos_range: tuple[float, float] | None = None
    allowed_neg_range: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        strategies = {self.pos_strategy, self.neg_strategy}
        if "semihard" in strategies and (len(strategies) == 1 or "all" in strategies):
            raise BadInput("'semihard' needs 'easy' or 'hard' for the other kind of pair")

    def mine(self, relations: Relations) -> Relations:
        """One positive and one negative pair an anchor, or all of a kind."""
        positive, negative = self._chosen(relations)
        if "all" not in (self.pos_strategy, self.neg_strategy):
            both = positive.any(1, keepdim=True) & negative.any(1, keepdim=True)
            return relations.only(positive & both, negative & both)
        return relations.only(positive, negative)

    def _chosen(self, relations: Relations) -> tuple[Tensor, Tensor]:
        similarity = relations.similarity
        positive = relations.positives > 0
        negative = relations.negatives > 0
        if self.pos_strategy != "all":
            positive = positive & self._allowed(similarity, self.allowed_pos_range)
        if self.neg_strategy != "all":
            negative = negative & self._allowed(similarity, self.allowed_neg_range)
        if self.pos_strategy == "semihard":
            negative, level = _extreme(similarity, negative, nearest=self.neg_strategy == "hard")
            positive, _ = _extreme(similarity, positive & (similarity > level), nearest=False)
        elif self.neg_strategy == "semihard":
            positive, level = _extreme(similarity, positive, nearest=self.pos_strategy == "easy")
            negative, _ = _extreme(similarity, negative & (similarity < level), nearest=True)
        else:
            if self.pos_strategy != "all":
                positive, _ = _extreme(similarity, positive, nearest=self.pos_strategy == "easy")
            if self.neg_strategy != "all":
                negative, _ = _extreme(similarity, negative, nearest=self.neg_strategy == "hard")
        return positive, negative

    def _allowed(self, similarity: Tensor, bounds: tuple[float, float] | None) -> Tensor:
        if bounds is None:
            return torch.ones_like(similarity, dtype=torch.bool)
        ends = sorted(self.distance.to_similarity(end) for end in bounds)
        return (similarity >= ends[0]) & (similarity <= ends[1])


def _extreme(similarity: Tensor, mask: Tensor, *, nearest: bool) -> tuple[Tensor, Tensor]:
    """The nearest (or farthest) candidate inside the mask, as a mask, and its similarity."""
    outside = -torch.inf if nearest else torch.inf
    inside = similarity.where(mask, outside)
    extreme = inside.max(1, keepdim=True) if nearest else inside.min(1, keepdim=True)
    one = torch.zeros_like(mask).scatter_(1, extreme.indices, extreme.values.isfinite())
    return one, extreme.values


@MINERS.register("hard", paper="Hermans et al., 2017")
class BatchHardMiner(Miner):
    """The farthest positive and the nearest negative of each anchor, as triplets."""

    def mine(self, relations: Relations) -> Relations:
        """One triplet an anchor that has a positive and a negative."""
        positive, _ = _extreme(relations.similarity, relations.positives > 0, nearest=False)
        negative, _ = _extreme(relations.similarity, relations.negatives > 0, nearest=True)
        keep = (positive.any(1) & negative.any(1)).unsqueeze(1)
        anchor = torch.arange(len(positive), device=positive.device)
        positive, negative = (mask.int().argmax(1) for mask in (positive, negative))
        return relations.only_triplets(Triplets(anchor, positive, negative.unsqueeze(1), keep))
