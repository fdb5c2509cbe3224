"""rho-regularisation: now and then, push the images of a class apart."""

from typing import Any

import torch
from torch import Tensor

from lookalike.errors import BadInput
from lookalike.miners.base import Miner, as_miner
from lookalike.miners.mined import list_triplets
from lookalike.ops.pairs import listed_pairs, picked
from lookalike.registry import MINERS
from lookalike.relations import Relations

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

    def __init__(
        self,
        miner: Miner | str = "distance-weighted",
        probability: float = 0.2,
        settings: dict[str, Any] | None = None,
    ) -> None:
        made = MINERS.create(miner, **(settings or {})) if isinstance(miner, str) else miner
        made = as_miner(made)
        super().__init__(distance=made.distance, label_comparison=made.label_comparison)
        if not 0 <= probability <= 1:
            raise BadInput(f"probability is {probability}; it must be from 0 to 1")
        self.miner = made
        self.probability = probability

    def mine(self, relations: Relations) -> Relations:
        """What the inner miner chose, some of it replaced."""
        found = self.miner.mine(relations)
        if found.condition is not None:
            found = list_triplets(found)
        itself, classmates = _in_class(relations)
        columns, number = _columns_of(classmates)
        pairs = listed_pairs(found.positives)
        anchor = pairs.rows if found.triplets is None else found.triplets.anchor
        number = number[anchor]
        chance = torch.rand(2, *anchor.shape, device=anchor.device)
        classmate = picked(columns, anchor, (chance[0] * number).long())
        replaced = (chance[1] < self.probability) & (number > 0)
        if found.triplets is not None:
            _, positive, negative, weights = found.triplets
            positive = torch.where(replaced, itself[anchor], positive)
            negative = torch.where(replaced, classmate, negative)
            return found.only_triplets(anchor, positive, negative, weights > 0)
        moved = pairs.weights * replaced
        places = anchor * classmates.shape[1] + classmate
        positive = found.positives.flatten().index_add(0, pairs.places, moved, alpha=-1)
        negative = found.negatives.flatten().index_add(0, places, moved)
        return found.counted_pairs(positive.view_as(classmates), negative.view_as(classmates))


def _in_class(relations: Relations) -> tuple[Tensor, Tensor]:
    """Which candidate is the anchor itself (or the nearest of its class), and its classmates."""
    itself, same = relations.itself, relations.same
    if itself is None:
        itself = (relations.similarity + (same.ceil() - 1) * 1e30).argmax(1)
    return itself, same.scatter(1, itself.unsqueeze(1), 0) > 0


def _columns_of(mask: Tensor) -> tuple[Tensor, Tensor]:
    """The columns that are True, first in each row, and how many they are."""
    height, width = mask.shape
    place = torch.where(mask, mask.cumsum(1) - 1, width)
    columns = torch.arange(width, device=mask.device).expand(height, width)
    listed = torch.zeros(height, width + 1, dtype=torch.long, device=mask.device)
    return listed.scatter_(1, place, columns), mask.sum(1)
