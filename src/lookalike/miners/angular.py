"""Triplets with a wide angle at the negative."""

import math

from lookalike.miners.base import Miner
from lookalike.ops.conditions import Angle
from lookalike.registry import MINERS
from lookalike.relations import Relations

__all__ = ["AngularMiner"]


@MINERS.register("angular", paper="Wang et al., ICCV 2017")
class AngularMiner(Miner):
    """Triplets whose angle ``atan(d_ap / (2 |x_n - (x_a + x_p)/2|))`` exceeds ``angle`` degrees.

    Everything is of unit vectors (PML takes the embeddings as they come). The distances to the
    centre follow from similarities: ``|x_n - c|^2 = 1 + (1 + s_ap)/2 - s_an - s_pn``.

    Args:
        angle: In degrees.
    """

    needs = "unit vectors (cosine or l2)"

    angle: float = 20

    def mine(self, relations: Relations) -> Relations:
        """The condition itself; it is applied by who needs it."""
        cosine = 1 - self.distance.squared_euclidean(relations.similarity) / 2
        between = cosine
        if not relations.self_comparison:
            between = 1 - self.distance.squared_euclidean(relations.between_candidates()) / 2
        # tan is increasing: compare d_ap^2 with (2 tan(angle) |x_n - c|)^2
        factor = 4 * math.tan(math.radians(self.angle)) ** 2
        return relations.only_where(Angle(cosine, between, factor))
