"""Triplets by how much nearer the positive is than the negative, and by the angle between."""

import math
from typing import Literal

import torch
from torch import Tensor

from lookalike.miners.base import Miner
from lookalike.ops.blocks import in_blocks
from lookalike.registry import MINERS
from lookalike.relations import Relations, Triplets

__all__ = ["AngularMiner", "SemiHardMiner", "TripletMarginMiner"]


@MINERS.register("semi-hard", paper="Schroff et al., CVPR 2015")
class SemiHardMiner(Miner):
    """For each positive pair the nearest negative beyond the positive, if within the margin.

    ``argmin d_an`` over the negatives with ``d_ap < d_an < d_ap + margin``.

    Args:
        margin: How far beyond the positive a negative may lie. By default 0.2 with
            ``fallback="hardest"``, and no bound with ``fallback="none"``.
        fallback: What a positive pair without such a negative gets: ``"hardest"`` the nearest
            negative of all, as in the code of FaceNet; ``"none"`` no triplet. ``"none"`` without a
            margin is ``argmax s_an`` over ``s_an < s_ap`` and nothing else (Psomas, 2020).
    """

    margin: float | None = None
    fallback: Literal["hardest", "none"] = "hardest"

    def __post_init__(self) -> None:
        if self.margin is None:
            self.margin = 0.2 if self.fallback == "hardest" else torch.inf

    def mine(self, relations: Relations) -> Relations:
        """One triplet for each positive pair that has a fitting negative, or a fallback."""
        margin = self.margin
        assert margin is not None
        anchor, positive = relations.listed_pairs
        near = relations.similarity.where(relations.negatives > 0, -torch.inf)
        hardest = near.max(1)

        def choose(near: Tensor, anchor: Tensor, ap: Tensor) -> Tensor:
            an = near.index_select(0, anchor)
            nearest = an.where(an < ap, -torch.inf).max(1, keepdim=True)
            fits = (nearest.values > ap - margin) & nearest.values.isfinite()
            return nearest.indices.where(fits, -1)

        ap = relations.ap
        negative = in_blocks(choose, near, anchor, ap, columns=near.shape[1])
        exists = negative >= 0
        if self.fallback == "hardest":
            negative = negative.where(exists, hardest.indices[anchor].unsqueeze(1))
            exists = hardest.values.isfinite()[anchor].unsqueeze(1)
        keep = exists & (relations.at_pairs(relations.positives) > 0).unsqueeze(1)
        return relations.only_triplets(Triplets(anchor, positive, negative.clamp_min(0), keep))


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

    def mine(self, relations: Relations) -> Relations:
        """The triplets of all positive pairs whose gap is within bounds."""
        above, upto = {
            "all": (-torch.inf, self.margin),
            "hard": (-torch.inf, min(self.margin, 0.0)),
            "semihard": (0.0, self.margin),
            "easy": (self.margin, torch.inf),
        }[self.type_of_triplets]
        weights, _ = relations.triplet_weights()
        gap = relations.ap - relations.an
        return _only_where(relations, (weights > 0) & (gap > above) & (gap <= upto))


@MINERS.register("angular", paper="Wang et al., ICCV 2017")
class AngularMiner(Miner):
    """Triplets whose angle at the negative is more than ``angle`` degrees.

    The angle is ``atan(d_ap / (2 |x_n - (x_a + x_p)/2|))``, of unit vectors (PML takes the
    embeddings as they come). The distances to the centre follow from similarities:
    ``|x_n - c|^2 = 1 + (1 + s_ap)/2 - s_an - s_pn``.

    Args:
        angle: In degrees.
    """

    needs = "unit vectors (cosine or l2)"

    angle: float = 20

    def mine(self, relations: Relations) -> Relations:
        """The triplets of all positive pairs with such an angle."""
        r, squared = relations, self.distance.squared_euclidean
        between = r.similarity
        if r.ref_emb is not None:
            between = self.distance.similarity(r.ref_emb)
        cosines = r._replace(similarity=1 - squared(r.similarity) / 2)
        ap, pn = cosines.ap, cosines.pn(1 - squared(between) / 2)
        to_centre = 1 + (1 + ap) / 2 - cosines.an - pn
        # tan is increasing: compare d_ap^2 = 2 - 2 s_ap with (2 tan(angle) |x_n - c|)^2
        bound = 4 * math.tan(math.radians(self.angle)) ** 2 * to_centre
        weights, _ = r.triplet_weights()
        return _only_where(r, (weights > 0) & (2 - 2 * ap > bound))


def _only_where(r: Relations, mask: Tensor) -> Relations:
    """The triplets of the positive pairs where the mask [pairs, candidates] is true."""
    return r.only_triplets(Triplets(*r.listed_pairs, None, mask))
