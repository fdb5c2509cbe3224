"""All triplets whose margin lies in a range."""

from typing import Literal

import torch

from lookalike.miners.base import Miner
from lookalike.registry import MINERS
from lookalike.relations import Relations

__all__ = ["TripletMarginMiner"]


@MINERS.register("triplet-margin", paper="Schroff et al., CVPR 2015")
class TripletMarginMiner(Miner):
    """Every triplet that violates the margin, or only its hard or semi-hard part.

    With ``gap = d_an - d_ap``: ``all`` gap <= margin; ``hard`` gap <= 0 (and margin);
    ``semihard`` 0 < gap <= margin; ``easy`` gap > margin.

    Args:
        margin: In the unit of the distance.
        type_of_triplets: Which part of the violating triplets is kept, or ``easy``.
    """

    margin: float = 0.2
    type_of_triplets: Literal["all", "hard", "semihard", "easy"] = "all"

    def __post_init__(self) -> None:
        super().__post_init__()
        bounds = {
            "all": (-torch.inf, self.margin),
            "hard": (-torch.inf, min(self.margin, 0.0)),
            "semihard": (0.0, self.margin),
            "easy": (self.margin, torch.inf),
        }
        self.bounds = bounds[self.type_of_triplets]

    def mine(self, relations: Relations) -> Relations:
        """The condition itself; it is applied by who needs it."""
        return relations.only_gap(*self.bounds)
