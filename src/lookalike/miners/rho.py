"""rho-regularisation: now and then, push the images of a class apart."""

from typing import Any

import torch
from torch import Tensor

from lookalike.errors import BadInput
from lookalike.miners.base import Miner, as_miner
from lookalike.ops.blocks import gather_pairs
from lookalike.registry import MINERS
from lookalike.relations import Relations, Triplets

__all__ = ["RhoMiner"]


@MINERS.register("rho", paper="Roth et al., ICML 2020")
class RhoMiner(Miner):
    """With a probability, replaces a triplet by one that keeps the spread inside the class.

    The replaced triplet is (anchor, the anchor itself, another image of its class), so the class
    is pushed apart a little. Of a miner of pairs, a positive pair is replaced by what such a
    triplet adds: the negative pair (anchor, another image of its class).

    Args:
        miner: Any miner, or its name.
        probability: Of a replacement.
        settings: The arguments of the miner, where it is given by name.
    """

    miner: Miner | str = "distance-weighted"
    probability: float = 0.2
    settings: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.probability <= 1:
            raise BadInput(f"probability is {self.probability}; it must be from 0 to 1")
        miner: Any = self.miner
        if isinstance(miner, str):
            miner = MINERS.create(miner, **self.settings or {})
        self.miner = as_miner(miner)
        self.distance = self.miner.distance
        self.label_comparison = self.miner.label_comparison

    def mine(self, relations: Relations) -> Relations:
        """What the inner miner chose, some of it replaced."""
        assert isinstance(self.miner, Miner)
        chosen = self.miner.mine(relations)
        itself, classmates = _in_class(relations)
        columns, number = _columns_of(classmates)
        if chosen.triplets is None:
            return self._of_pairs(chosen, columns, number)
        anchor, positive, negative, weights = chosen.triplets
        if negative is None or negative.shape[1] > 1:  # a positive pair has several triplets
            anchor, positive, column = chosen.triplets.one_by_one()
            negative = column.unsqueeze(1)
            weights = torch.ones_like(negative, dtype=weights.dtype)
        classmate, replaced = self._drawn(anchor, columns, number)
        positive = torch.where(replaced, itself[anchor], positive)
        negative = torch.where(replaced, classmate, negative.squeeze(1)).unsqueeze(1)
        return chosen.only_triplets(Triplets(anchor, positive, negative, weights))

    def _of_pairs(self, chosen: Relations, columns: Tensor, number: Tensor) -> Relations:
        anchor, positive = chosen.positives.nonzero(as_tuple=True)
        classmate, replaced = self._drawn(anchor, columns, number)
        moved = chosen.positives[anchor, positive] * replaced
        return chosen.only(
            chosen.positives.index_put((anchor, positive), -moved, accumulate=True),
            chosen.negatives.index_put((anchor, classmate), moved, accumulate=True),
        )

    def _drawn(self, anchor: Tensor, columns: Tensor, number: Tensor) -> tuple[Tensor, Tensor]:
        """Another image of the class for each anchor, and whether it replaces."""
        chance = torch.rand(2, len(anchor), device=anchor.device)
        number = number[anchor]
        classmate = gather_pairs(columns, anchor, (chance[0] * number).long())
        return classmate, (chance[1] < self.probability) & (number > 0)


def _in_class(relations: Relations) -> tuple[Tensor, Tensor]:
    """Which candidate is the anchor itself (or the nearest of its class), and its classmates."""
    r = relations
    own = (r.positives + r.negatives) == 0
    near = r.similarity.where(r.positives > 0, -torch.inf)
    itself = torch.where(own.any(1), own.int().argmax(1), near.argmax(1))
    return itself, (r.positives > 0).scatter(1, itself.unsqueeze(1), False)


def _columns_of(mask: Tensor) -> tuple[Tensor, Tensor]:
    """The columns that are True, first in each row, and how many they are."""
    return torch.argsort(mask.int(), dim=1, descending=True, stable=True), mask.sum(1)
