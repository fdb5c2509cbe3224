"""Triplets with a wide angle at the negative."""

import math

import torch

from lookalike.miners.base import Miner
from lookalike.ops.pairs import at_places, listed_pairs
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
        """Triplets with a place for each positive pair and candidate."""
        cosine = 1 - self.distance.squared_euclidean(relations.similarity) / 2
        between = 1 - self.distance.squared_euclidean(relations.between_candidates()) / 2
        pairs = listed_pairs(relations.positives)
        rows, places, weight = pairs
        columns = pairs.columns(cosine)
        near = at_places(cosine, places).unsqueeze(1)
        to_centre = 1 + (1 + near) / 2 - cosine[rows] - between[columns]
        # tan is increasing: compare d_ap^2 with (2 tan(angle) |x_n - c|)^2
        wide = 2 - 2 * near > 4 * math.tan(math.radians(self.angle)) ** 2 * to_centre
        keep = wide & (relations.negatives[rows] > 0) & (weight > 0).unsqueeze(1)
        candidate = torch.arange(keep.shape[1], device=rows.device)
        return relations.only_triplets(
            rows.unsqueeze(1).expand_as(keep).reshape(-1),
            columns.unsqueeze(1).expand_as(keep).reshape(-1),
            candidate.expand_as(keep).reshape(-1),
            keep.reshape(-1),
        )
