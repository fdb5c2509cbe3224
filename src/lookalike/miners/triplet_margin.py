"""All triplets whose margin lies in a range."""

from typing import Literal, Unpack

import torch

from lookalike.errors import BadInput, nearest
from lookalike.geometry import Relations, compact
from lookalike.miners.base import Miner, MinerOptions
from lookalike.miners.mined import Ranges
from lookalike.registry import MINERS

__all__ = ["TripletMarginMiner"]

_BOUNDS = {
    "all": (-torch.inf, 1.0),
    "hard": (-torch.inf, 0.0),
    "semihard": (0.0, 1.0),
    "easy": (1.0, torch.inf),
}


@MINERS.register("triplet-margin", paper="Schroff et al., CVPR 2015")
class TripletMarginMiner(Miner):
    """Every triplet that violates the margin, or only its hard or semi-hard part.

    With ``gap = d_an - d_ap``: ``all`` gap <= margin; ``hard`` gap <= 0 (and margin);
    ``semihard`` 0 < gap <= margin; ``easy`` gap > margin.
    """

    def __init__(
        self,
        margin: float = 0.2,
        type_of_triplets: Literal["all", "hard", "semihard", "easy"] = "all",
        **options: Unpack[MinerOptions],
    ) -> None:
        super().__init__(**options)
        if type_of_triplets not in _BOUNDS:
            raise BadInput(
                f"there is no type_of_triplets '{type_of_triplets}'; "
                + nearest(type_of_triplets, _BOUNDS)
            )
        self.margin = margin
        self.type_of_triplets = type_of_triplets

    def mine(self, relations: Relations) -> Ranges:
        """Ranges of each anchor's sorted candidates, found by bisection."""
        above, upto = _BOUNDS[self.type_of_triplets]
        ranked, order = (-relations.similarity).sort(1)
        positive, weight = compact(relations.positives)
        near = -relations.similarity.gather(1, positive)

        def first_beyond(bound: float) -> torch.Tensor:
            gap = min(self.margin, 0) if bound == 0 and above != 0 else bound * self.margin
            return torch.searchsorted(ranked, near + gap, right=True)

        start = torch.zeros_like(positive) if above == -torch.inf else first_beyond(above)
        stop = (
            torch.full_like(positive, ranked.shape[1]) if upto == torch.inf else first_beyond(upto)
        )
        stop = torch.maximum(start, stop)
        negative = relations.negatives > 0
        return Ranges(positive, weight, start, stop, order, negative, self.distance)
