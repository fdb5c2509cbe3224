"""All triplets whose margin lies in a range."""

from typing import Literal, Unpack

import torch

from lookalike.errors import BadInput, did_you_mean
from lookalike.miners.base import Miner, MinerOptions
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
        options: Those of every miner, see ``MinerOptions``.
    """

    def __init__(
        self,
        margin: float = 0.2,
        type_of_triplets: Literal["all", "hard", "semihard", "easy"] = "all",
        **options: Unpack[MinerOptions],
    ) -> None:
        super().__init__(**options)
        bounds = {
            "all": (-torch.inf, margin),
            "hard": (-torch.inf, min(margin, 0.0)),
            "semihard": (0.0, margin),
            "easy": (margin, torch.inf),
        }
        if type_of_triplets not in bounds:
            raise BadInput(
                f"there is no type_of_triplets '{type_of_triplets}'; "
                + did_you_mean(type_of_triplets, bounds)
            )
        self.margin = margin
        self.type_of_triplets = type_of_triplets
        self.bounds = bounds[type_of_triplets]

    def mine(self, relations: Relations) -> Relations:
        """The condition itself; it is applied by who needs it."""
        return relations.only_gap(*self.bounds)
